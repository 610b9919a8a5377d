"""When cron entries are due: schedules of five fields, in a time zone."""

from __future__ import annotations

import re
from collections import deque
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
UTC = timezone.utc
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Field(NamedTuple):
    """A field of a schedule: what it is called, its least and largest number, its names."""

    name: str
    least: int
    largest: int
    names: dict[str, int]


MINUTES = Field("minute", 0, 59, {})
HOURS = Field("hour", 0, 23, {})
FIELDS = (
    MINUTES,
    HOURS,
    Field("day of month", 1, 31, {}),
    Field("month", 1, 12, {name: number for number, name in enumerate(MONTHS, 1)}),
    Field("day of week", 0, 7, {name: number for number, name in enumerate(WEEKDAYS)}),
)
ITEM = re.compile(r"(?:\*|(\d{1,2}|[a-z]+)(-(?:\d{1,2}|[a-z]+))?)(/\d{1,2})?", re.ASCII)
WRITE = (
    "write minute, hour, day of month, month and day of week, as '0 7 * * 1-5' for seven o'clock "
    f"on working days, or one of {', '.join(NICKNAMES)}"
)


class Schedule:
    """The due times of a schedule in a time zone, with the meaning that cron gives it.

    A schedule for every hour follows real time: it is due in both of two repeated hours, and never
    in a skipped one. Any other schedule counts each time on the clock once: in a repeated hour the
    first time; the times that a clock skips are due when the gap ends.

    CronTrigger's own way with zones is another one: it is due twice at 02:30 in October, and a
    search from March may arrive an hour late at the first of April. So the trigger counts times on
    the clock, as if they were UTC, and the methods here find the moments at which a clock of the
    zone shows them.
    """

    def __init__(self, text: str, zone: str) -> None:
        """Raise InvalidArgument for a text that is no schedule, or that no day fits."""
        self._zone = find_zone(zone)
        words = NICKNAMES.get(text.strip().lower(), text).split()
        if len(words) != len(FIELDS):
            raise _invalid(text, f"it has {len(words)} field(s), not {len(FIELDS)}: {WRITE}")
        numbers = [_parse(text, field, word) for field, word in zip(FIELDS, words, strict=True)]
        self._every_hour = len(numbers[1]) == HOURS.largest + 1
        self._trigger = _trigger(words, numbers)
        self._text = text
        self._next_match(datetime.now(UTC))

    def next_after(self, time: datetime) -> datetime:
        """Return the first due time after a time, in UTC."""
        time = time.astimezone(UTC).replace(second=0, microsecond=0)  # due times have none
        return self._next_real(time) if self._every_hour else self._next_on_clock(time)

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the due times after `after`, up to and with `until`."""
        due = self.next_after(after)
        while due <= until:
            yield due
            due = self.next_after(due)

    def newest(self, after: datetime, until: datetime, most: int) -> list[datetime]:
        """Return the last due times up to `until`, at most so many, the oldest of them first.

        It looks back in windows that grow, so that a year of missed minutes costs little.
        """
        window = most * MINUTE
        while True:
            start = max(after, until - window)
            found = deque(self.between(start, until), maxlen=most)
            if start == after or len(found) == most:
                return list(found)
            window *= 4

    def _next_on_clock(self, time: datetime) -> datetime:
        """Return the first due time of a schedule that counts each time on the clock once."""
        clock = self._next_match(self._clock(time) + MINUTE)
        while (due := self._first_moment(clock)) <= time:  # counted before the clock went back
            clock = self._next_match(clock + MINUTE)
        return due

    def _first_moment(self, clock: datetime) -> datetime:
        """Return the first moment at which a clock shows this time or a later one."""
        while True:
            moment = clock.replace(tzinfo=self._zone).astimezone(UTC)
            if self._clock(moment) == clock:
                return moment
            clock += MINUTE  # the clock skips it

    def _next_real(self, time: datetime) -> datetime:
        """Return the first due time of a schedule for every hour."""
        moment = time + MINUTE
        while ahead := self._next_match(self._clock(moment)) - self._clock(moment):
            ahead = min(ahead, DAY)
            # Where the clock is changed on the way, it shows other times than the trigger counted.
            straight = self._clock(moment + ahead) == self._clock(moment) + ahead
            moment += ahead if straight else MINUTE
        return moment

    def _next_match(self, clock: datetime) -> datetime:
        """Return the first time on the clock that the fields match, at `clock` or later."""
        found: datetime | None = self._trigger.get_next_fire_time(None, clock)
        if found is None:
            raise _invalid(self._text, "no month has such a day: correct the day or the month")
        return found

    def _clock(self, moment: datetime) -> datetime:
        """Return what a clock of the zone shows, as if it were UTC."""
        return moment.astimezone(self._zone).replace(tzinfo=UTC)


@lru_cache(maxsize=1024)
def schedule(text: str, zone: str) -> Schedule:
    """Return the schedule of a text, parsed once."""
    return Schedule(text, zone)


def should_fire(text: str, zone: str, next_due: datetime | None, planned_at: datetime) -> datetime:
    """Return when an entry should fire: when it is due, or earlier if its schedule says so.

    A time that is too late was planned with other time zone data, or by somebody else. `next_due`
    is None until a ticker has planned the entry. If its schedule cannot be read, the entry counts
    as due since `planned_at`.
    """
    try:
        first = schedule(text, zone).next_after(planned_at)
    except InvalidArgument:
        return next_due or planned_at
    return first if next_due is None else min(next_due, first)


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone by its name; InvalidArgument if there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        msg = (
            f"time zone {name!r} is not known: write a name such as UTC or Europe/Berlin; if it is "
            "right, this machine lacks the time zone data: install tzdata (pip install tzdata)"
        )
        raise InvalidArgument(msg, parameter="timezone") from None


def _trigger(words: list[str], numbers: list[list[int]]) -> CronTrigger | OrTrigger:
    numbers[4] = sorted({(number - 1) % 7 for number in numbers[4]})  # APScheduler's 0 is Monday
    minute, hour, day, month, weekday = (
        "*" if len(each) == most else ",".join(map(str, each))  # "*" is quicker
        for each, most in zip(numbers, (60, 24, 31, 12, 7), strict=True)
    )
    rest: dict[str, Any] = {"minute": minute, "hour": hour, "month": month, "second": 0}
    rest["timezone"] = UTC
    if words[2].startswith("*") or words[4].startswith("*"):
        return CronTrigger(day=day, day_of_week=weekday, **rest)
    return OrTrigger([CronTrigger(day=day, **rest), CronTrigger(day_of_week=weekday, **rest)])


def _parse(text: str, field: Field, word: str) -> list[int]:
    """Return the numbers that a field stands for, in order."""
    found: set[int] = set()
    for item in word.lower().split(","):
        match = ITEM.fullmatch(item)
        first, last, step = match.groups() if match else (None, None, None)
        if not match or (first and step and not last):
            raise _wrong_item(text, field, item)
        least = _number(text, field, first) if first else field.least
        largest = _number(text, field, last[1:]) if last else least if first else field.largest
        if field is FIELDS[4] and last and largest == 0:
            largest = 7  # fri-sun
        if not field.least <= least <= largest <= field.largest or step == "/0":
            raise _wrong_item(text, field, item)
        found.update(range(least, largest + 1, int(step[1:]) if step else 1))
    return sorted(found)


def _number(text: str, field: Field, word: str) -> int:
    if word.isdigit():
        return int(word)
    if word not in field.names:
        raise _wrong_item(text, field, word)
    return field.names[word]


def _wrong_item(text: str, field: Field, item: str) -> InvalidArgument:
    names = list(field.names)
    named = f" or {names[0]} to {names[-1]}" if names else ""
    return _invalid(
        text,
        f"{item!r} is no {field.name}: write {field.least} to {field.largest}{named}, * for all, "
        f"a range such as {field.least}-{field.least + 4}, a step such as */2, or a list of these",
    )


def _invalid(text: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"schedule {text!r}: {why}", parameter="schedule")
