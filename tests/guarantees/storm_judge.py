"""What the storm has written down, judged when it has come to rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.archive.files import list_files, verify
from pgqpy.archive.read import read_events
from pgqpy.archive.store import Store
from tests.guarantees.history import Findings, check_events, check_order, read_lines
from tests.guarantees.storm_load import always_fails

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.guarantees.history import Transaction
    from tests.guarantees.sessions import Session

CANCELLED = "select distinct ev_id from told where consumer = %s and state = 'cancelled'"
ALL_CANCELLED = """
    select ev_id, min(seq) from (
        select ev_id, seq, bool_and(state = 'cancelled') over (partition by call, ev_id) as by_all,
               count(*) over (partition by call, ev_id) as consumers
          from told) t
     where by_all and consumers >= 4 group by ev_id"""
CRON = "cron "
MINUTE = timedelta(minutes=1)


class Handled(NamedTuple):
    """One event that a handler of the shared consumer had."""

    at: float
    data: str
    raised: bool


def read_handled(path: Path) -> list[Handled]:
    """Read what a process wrote; a line that a kill cut short does not count."""
    return [Handled(**line) for line in read_lines(path)]


class Judge:
    """The tables of the storm, and what is asked about them."""

    def __init__(self, session: Session) -> None:
        """Read what all checks need."""
        self.session = session
        self.markers: dict[str, tuple[Any, ...]] = {
            row[0]: row for row in session.all("select data, kind, ev_id, is_new from marker")
        }
        self.known: list[tuple[int, str]] = session.all(
            "select ev_id, data from known where data not like 'cron %%'"
        )
        self.names = dict(self.known)
        for data, _, event, is_new in self.markers.values():
            if is_new and event is not None:
                self.names.setdefault(event, data)

    def hidden(self, consumer: str) -> set[str]:
        """Return the events that were cancelled for a consumer."""
        rows = self.session.all(CANCELLED, consumer)
        return {self.names[event] for (event,) in rows if event in self.names}

    def queue(self, transactions: Iterable[Transaction]) -> None:
        """Each event that was committed is in one range, no other is, and they are in order."""
        counts = Counter(data for _, data in self.known)
        expected = {data for data, _, _, is_new in self.markers.values() if is_new}
        removed = {self.names[row[0]] for row in self.session.all(ALL_CANCELLED)}
        delayed = {data for data, kind, *_ in self.markers.values() if kind == "delayed"}
        assert counts.keys() <= expected, f"phantom: {counts.keys() - expected}"
        lost = expected - counts.keys()
        assert lost <= delayed & removed, f"lost: {lost - (delayed & removed)}"
        assert set(counts.values()) == {1}, f"twice: {[d for d, n in counts.items() if n > 1]}"
        repeated = {data for data, _, _, is_new in self.markers.values() if not is_new}
        absent = lost | repeated
        told = [
            each._replace(keep=[data for data in each.keep if data not in absent])
            for each in transactions
        ]
        place = dict(self.session.all("select data, tick from known where data not like 'cron %%'"))
        findings = Findings()
        check_events(told, place, findings)
        at_once = {data: tick for data, tick in place.items() if data not in delayed}
        check_order(told, at_once, findings)
        assert findings == Findings(), findings

    def effects(self) -> None:
        """The transactional consumer had each event once, unless it was cancelled (G9)."""
        counts = Counter(data for (data,) in self.session.all("select data from effect"))
        hidden = self.hidden("effects")
        expected = Counter(
            data for (data,) in self.session.all("select data from known") if data not in hidden
        )
        assert counts == expected, f"lost {expected - counts}, doubled {counts - expected}"

    def chain(self, consumer: str) -> None:
        """The batches of a consumer join end to start, from each place that it was moved to."""
        place = None
        rows = self.session.all(
            """
            select prev, tick from (
                select prev, tick, seq from seen where consumer = %s
                union all select null, tick, seq from sought where consumer = %s) t
             order by seq""",
            *(consumer, consumer),
        )
        for prev, tick in rows:
            assert None in (place, prev) or prev == place, f"{consumer}: {prev} after {place}"
            place = tick
        last = self.session.one("select max(tick) from known")
        assert place is not None
        assert place >= last, f"{consumer} has not had the last events"

    def letters(
        self, logs: Iterable[list[Handled]], answered: dict[tuple[int, str], float]
    ) -> None:
        """Each event was handled in the order of its key, and given up, or not, as it fails."""
        handled = sorted((each for log in logs for each in log), key=attrgetter("at"))
        handled = [each for each in handled if not each.data.startswith(CRON)]
        data = {data for _, data in self.known}
        done = {each.data for each in handled if not each.raised}
        hidden, dead = self.hidden("letters"), self._dead()
        fails = {each for each in data if always_fails(each)}
        assert data - done <= hidden | dead, f"lost: {data - done - hidden - dead}"
        assert {each.data for each in handled} <= data, "phantom"
        assert dead <= fails, "dead, though it does not fail"
        assert fails - dead <= hidden, f"undead: {fails - dead - hidden}"
        own = {event: at for (event, name), at in answered.items() if name == "letters"}
        times = {self.names[event]: at for event, at in own.items()}
        late = [each for each in handled if each.at > times.get(each.data, each.at)]
        assert not late, f"delivered though cancelled: {late}"
        self._check_keys(handled)

    def _dead(self) -> set[str]:
        rows = self.session.all("select ev_data from pgq.get_dead_events('q', 'letters')")
        return {data for (data,) in rows}

    def _check_keys(self, handled: list[Handled]) -> None:
        """What a producer inserted at once with one key is done in that order."""
        numbers = {
            data: event
            for data, kind, event, is_new in self.markers.values()
            if kind == "plain" and is_new
        }
        keys = dict(self.session.all("select ev_id, key from known where key is not null"))
        done: dict[str, list[int]] = defaultdict(list)
        for each in handled:
            event = numbers.get(each.data, 0)
            if event in keys and not each.raised and event not in done[keys[event]]:
                done[keys[event]].append(event)
        for key, events in done.items():
            assert events == sorted(events), f"key {key} in disorder"

    def dedup_keys(self) -> None:
        """A key has one event, until that is cancelled for all."""
        freed = dict(self.session.all(ALL_CANCELLED))
        rows = self.session.all(
            "select dedup_key, ev_id, is_new, seq from marker where kind = 'once' order by 1, seq"
        )
        for key, calls in groupby(rows, itemgetter(0)):
            events: list[int] = []
            for _, event, is_new, seq in calls:
                if is_new:
                    assert not events or freed.get(events[-1], seq) < seq, f"{key} has two events"
                    events.append(event)
                assert event in events, f"{key} names another event"

    def cron(self, entries: int, times: int) -> None:
        """Each entry fired once for each of its times."""
        rows = self.session.all(
            "select data, ev_time from known where data like 'cron %%' order by data, ev_time"
        )
        fired = {name: [row[1] for row in found] for name, found in groupby(rows, itemgetter(0))}
        assert len(fired) == entries
        for name, found in fired.items():
            assert found == [found[0] + n * MINUTE for n in range(len(found))], name
            assert len(found) >= times, name

    def archive(self, location: str) -> None:
        """The files hold each event once, from the tick at which the archive began."""
        store = Store(location)
        queue_id = self.session.one("select queue_id from pgq.queue")
        files = list_files(store, queue_id)
        archived = [event.id for event in read_events(store, files)]
        query = """
            select ev_id, prev >= %s from known join reading using (tick) where tick > %s"""
        first = files[0].from_tick  # may be within a reading
        known = dict(self.session.all(query, first, first))
        surely = {event for event, is_after in known.items() if is_after}
        assert len(archived) == len(set(archived)), "archived twice"
        assert surely <= set(archived), f"not archived: {surely - set(archived)}"
        assert set(archived) <= known.keys(), f"phantom: {set(archived) - known.keys()}"
        assert surely
        assert list(verify(store, queue_id)) == []
