"""Schedules of cron entries, against a clock that is looked at every minute."""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from unittest.mock import ANY
from zoneinfo import ZoneInfo

import pytest

from pgqpy import InvalidArgument
from pgqpy.schedule import Schedule

MINUTE, DAY, UTC = timedelta(minutes=1), timedelta(days=1), timezone.utc
MONTHS = [name.lower() for name in calendar.month_abbr]  # from "" for 0
WEEKDAYS = [name.lower() for name in (calendar.day_abbr[6], *calendar.day_abbr)]
ALL_YEAR = """
    0 7 * * 1-5 | 30 2 * * * | 0 2,3 * * * | */20 1-3 * * * | 0 */2 * * * | 0 * 1 * *
    */9 * 1,2 4 *
    15 0 29 feb * | 0 12 13 * fri | 5 4 */2 * 7 | 59 23 31 * * | 0 0 * * sat-sun | 30 * 1 4,11 0
""".replace("\n", " | ")
SCHEDULES = [each.strip() for each in ALL_YEAR.split("|") if each.strip()]
# Days of clock changes: by 30 minutes, by 2 hours, at midnight, at 00:01, of a whole skipped day.
CHANGES = [
    ("Europe/Berlin", "2028-03-26"),
    ("Europe/Berlin", "2028-10-29"),
    ("America/New_York", "2027-03-14"),
    ("America/New_York", "2027-11-07"),
    ("Australia/Lord_Howe", "2027-04-04"),
    ("Australia/Lord_Howe", "2027-10-03"),
    ("Antarctica/Troll", "2027-03-28"),
    ("Antarctica/Troll", "2027-10-31"),
    ("Asia/Beirut", "2027-03-28"),
    ("Asia/Beirut", "2027-10-31"),
    ("America/Havana", "2026-03-08"),
    ("America/Havana", "2026-11-01"),
    ("America/St_Johns", "2010-03-14"),
    ("America/St_Johns", "2010-11-07"),
    ("Pacific/Apia", "2011-12-30"),
    ("Asia/Kolkata", "2028-02-29"),
]


def number(word: str, names: list[str]) -> int:
    return names.index(word) if word in names else int(word)


def fit(word: str, lowest: int, names: list[str]) -> Callable[[int], bool]:
    """Return whether a number fits one of the words, as the manual of crontab says it."""
    items = []
    for item in word.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        start = lowest if first == "*" else number(first, names)
        end = 99 if first == "*" else (number(last, names) or 7) if last else start
        items.append((start, end, int(step or 1)))
    return lambda n: any(a <= n <= b and (n - a) % step == 0 for a, b, step in items)


def fits(text: str) -> Callable[[datetime], bool]:
    words = text.split()
    minute, hour, day, month = (
        {n for n in range(60) if fit(word, lowest, names)(n)}
        for word, lowest, names in zip(words, (0, 0, 1, 1), ([], [], [], MONTHS), strict=False)
    )
    weekday = {n % 7 for n in range(8) if fit(words[4], 0, WEEKDAYS)(n)}
    together = words[2][0] == "*" or words[4][0] == "*"

    def fits_time(clock: datetime) -> bool:
        if clock.minute not in minute or clock.hour not in hour or clock.month not in month:
            return False
        days = (clock.day in day, clock.isoweekday() % 7 in weekday)
        return all(days) if together else any(days)

    return fits_time


def due_times(texts: list[str], zone: str, start: datetime, end: datetime) -> list[list[datetime]]:
    """Look at the clock every minute, and return when each schedule is due.

    A time on the clock counts when the clock shows it or has passed it, and only the first time;
    in a schedule for every hour whenever the clock shows it.
    """
    tz = ZoneInfo(zone)
    found: list[list[datetime]] = [[] for _ in texts]
    judges = [fits(text) for text in texts]
    real = [all(map(fit(text.split()[1], 0, []), range(24))) for text in texts]
    moment = start
    latest = moment.astimezone(tz).replace(tzinfo=None, fold=0)
    while (moment := moment + MINUTE) <= end:
        clock = moment.astimezone(tz).replace(tzinfo=None, fold=0)
        usual = clock == latest + MINUTE
        reached = [] if usual else list(times(latest + MINUTE, clock))
        latest = max(latest, clock)
        for judge, is_real, dues in zip(judges, real, found, strict=True):
            if judge(clock) if is_real or usual else any(map(judge, reached)):
                dues.append(moment)
    return found


def times(first: datetime, last: datetime, step: timedelta = MINUTE) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += step


def test_schedules_are_due_when_the_clock_says_so_for_months() -> None:
    start, end = datetime(2027, 12, 28, tzinfo=UTC), datetime(2028, 4, 2, 12, tzinfo=UTC)
    expected = due_times(SCHEDULES, "Europe/Berlin", start, end)
    for text, dues in zip(SCHEDULES, expected, strict=True):
        schedule = Schedule(text, "Europe/Berlin")
        assert list(schedule.between(start, end)) == dues, text
        assert schedule.newest(start, end, 3) == dues[-3:], text
    assert all(expected)


def random_words(numbers: random.Random, lowest: int, highest: int) -> str:
    first, last = sorted((numbers.randint(lowest, highest), numbers.randint(lowest, highest)))
    return numbers.choice(["*", "*/2", f"{first},{last}", f"{first}-{last}", f"{first}-{last}/3"])


def random_schedule(numbers: random.Random) -> str:
    minute, hour, day, weekday = (
        random_words(numbers, *each) for each in ((0, 59), (0, 23), (1, 28), (0, 7))
    )
    return f"{minute} {hour} {day} * {weekday}"


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_schedules_are_due_when_the_clock_says_so_around_a_change(zone: str, day: str) -> None:
    change = datetime.fromisoformat(day).replace(tzinfo=UTC)
    begin, end = change - DAY, change + 2 * DAY
    numbers = random.Random(day)
    texts = [random_schedule(numbers) for _ in range(2)]
    texts += ["*/20 * * * *", "30 2 * * *", "*/15 0-3,23 * * *", "0 0 * * *"]
    for date in (change, change + DAY):
        texts += [f"0,30 * {date.day} * *", f"15 0,1,23 {date.day} * *"]
    for text, dues in zip(texts, due_times(texts, zone, begin, end), strict=True):
        schedule = Schedule(text, zone)
        assert list(schedule.between(begin, end)) == dues, text
        assert schedule.newest(begin, end, 5) == dues[-5:], text
        for after in times(change - DAY / 8, change + DAY / 4, 23 * MINUTE):
            assert schedule.next_after(after) == next((due for due in dues if due > after), ANY)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Weekly", "0 0 * * sun"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 JAN *"),
        ("@annually", " 0  0 1 1 * "),
        ("0 0 * * 5-7", "0 0 * * fri-sun"),
    ],
)
def test_names_stand_for_numbers(text: str, same: str) -> None:
    start, end = datetime(2027, 12, 20, tzinfo=UTC), datetime(2028, 1, 2, tzinfo=UTC)
    found = list(Schedule(text, "UTC").between(start, end))
    assert found == list(Schedule(same, "UTC").between(start, end)) != []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 7 * *", "4 field.s., not 5: write minute, hour, day of month"),
        ("0 0 7 * * 1-5", "6 field.s., not 5"),
        ("@reboot", "or one of @yearly"),
        ("60 * * * *", "'60' is no minute: write 0 to 59"),
        ("5/15 * * * *", "a range such as 0-4, a step"),
        ("0 24 * * *", "'24' is no hour"),
        ("0 0 0 * *", "'0' is no day of month: write 1 to 31"),
        ("0 0 L * *", "'l' is no day of month"),
        ("0 0 * 13 *", "'13' is no month: write 1 to 12 or jan to dec"),
        ("0 0 * * 8", "'8' is no day of week: write 0 to 7 or sun to sat"),
        ("0 0 * * 5-1", "'5-1' is no day of week"),
        ("0 0 * * mon-fry", "'fry' is no day of week"),
        ("*/0 * * * *", "'[*]/0' is no minute"),
        ("1,,2 * * * *", "'' is no minute"),
        ("0 0 30 2 *", "no month has such a day"),
    ],
)
def test_text_that_is_no_schedule_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as caught:
        Schedule(text, "UTC")
    assert caught.value.parameter == "schedule"


@pytest.mark.parametrize("zone", ["Europe/Belin", "", "../UTC", "Europe", "CET\0"])
def test_unknown_zone_is_refused_with_what_to_write(zone: str) -> None:
    with pytest.raises(
        InvalidArgument, match="write a name such as UTC or Europe/Berlin"
    ) as caught:
        Schedule("@daily", zone)
    assert caught.value.parameter == "timezone"
