"""The checker: the history of a simulation in, violations out. No I/O.

The truth of what was committed are the events that the ticks show. Two events of a key have an
order only if it is the same by tick and by id: a consumer that has fallen behind takes many ticks
as one batch, which is ordered by id. Events whose transactions did not overlap always have one. A
shared consumer takes events before they are ticked: of it, only events of different ticks have one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.simulate.options import MAX_CRASHES, MAX_RETRIES, PART_SIZE, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Line = dict[str, Any]


class Content(NamedTuple):
    """What makes an event the one that was inserted."""

    number: int
    key: str
    type: str


class Stored(NamedTuple):
    """An event as a range of two ticks shows it: the truth of what was committed."""

    tick: int
    id: int
    content: Content


@dataclass
class Insert:
    """An event as its producer knows it."""

    content: Content
    outcome: str = "unknown"  # commit or rollback
    at: int = 0  # nanoseconds, when the producer knew the outcome


@dataclass
class Handling:
    """One time that a worker handled an event. Times are in nanoseconds."""

    event: int
    content: Content
    run: int
    retry: int | None
    begin: int
    end: float = math.inf  # never; for a process that was killed: that time
    outcome: str = "none"  # ok or failed


@dataclass
class History:
    """All that the checker judges."""

    shared: bool = False  # retry counts claims that ended without done, too
    ordered: bool = True  # per key, one at a time
    parks: bool = False  # … also while events fail
    concurrency: int = 1  # events side by side in a worker
    types: tuple[str, ...] = ()  # that the workers take; (): all
    complete: bool = True  # the workers came to the end of the queue
    inserts: dict[int, Insert] = field(default_factory=dict)  # by event
    stored: list[Stored] = field(default_factory=list)
    handlings: list[Handling] = field(default_factory=list)  # by the time that they began
    dead: set[int] = field(default_factory=set)  # events
    killed: dict[int, int] = field(default_factory=dict)  # when it was last alive, by run
    lost: list[tuple[int, int]] = field(default_factory=list)  # (run, when) it lost its session
    _open: dict[tuple[int, int], Handling] = field(default_factory=dict)  # by run and event
    _begins: dict[int, list[int]] = field(default_factory=dict)  # of handlings, by run

    def add(self, lines: Iterable[Line]) -> None:
        """Take lines of the log, by time."""
        for line in lines:
            getattr(self, f"_{line['do']}")(line)
            if line.get("run") in self.killed:  # its kill is written first: it was still alive
                self.killed[line["run"]] = line["at"]

    def handled(self) -> dict[int, list[Handling]]:
        """Return the handlings of each event, by the time that they began."""
        found: dict[int, list[Handling]] = {}
        for handling in sorted(self.handlings, key=lambda handling: handling.begin):
            found.setdefault(handling.event, []).append(handling)
        return found

    def takes(self, content: Content) -> bool:
        """Say whether the workers take an event, by its type."""
        return not self.types or any(matches(wanted, content.type) for wanted in self.types)

    @property
    def runs_that_lost_their_session(self) -> set[int]:
        """The runs whose unfinished events came again, though they were not killed."""
        return {run for run, _ in self.lost}

    def unfinished(self) -> set[int]:
        """Return the events whose last handler failed, was cut off by a kill, or still runs."""
        return {
            event for event, handlings in self.handled().items() if handlings[-1].outcome != "ok"
        }

    def excused(self, handling: Handling, again: int) -> bool:
        """Say whether its worker was killed, or lost its session, before the event came again.

        Only the last events that the worker had begun until then may come again: it had not
        finished their part.
        """
        killed = self.killed.get(handling.run)
        ends = [at for run, at in self.lost if run == handling.run]
        if killed is not None:
            ends.append(killed)
        return any(
            handling.begin <= at <= again and self._is_unfinished(handling, at) for at in ends
        )

    def _is_unfinished(self, handling: Handling, at: int) -> bool:
        """Say whether the event may have been in the part that its worker had open at a time."""
        begins = self._begins[handling.run]
        began_since = bisect_right(begins, at) - bisect_left(begins, handling.begin)
        return began_since <= PART_SIZE + self.concurrency

    def _insert(self, line: Line) -> None:
        self.inserts[line["event"]] = Insert(_content(line))

    def _commit(self, line: Line) -> None:
        for event in line["events"]:
            self.inserts[event].outcome = line["do"]
            self.inserts[event].at = line["at"]

    _rollback = _commit

    def _begin(self, line: Line) -> None:
        handling = Handling(
            line["event"], _content(line), line["run"], line["retry"], begin=line["at"]
        )
        self.handlings.append(handling)
        self._begins.setdefault(handling.run, []).append(handling.begin)
        self._open[line["run"], line["event"]] = handling

    def _end(self, line: Line) -> None:
        handling = self._open.pop((line["run"], line["event"]))
        handling.end = line["at"]
        handling.outcome = "ok" if line["ok"] else "failed"

    def _kill(self, line: Line) -> None:
        self.killed[line["run"]] = line["at"]

    def _lost(self, line: Line) -> None:
        self.lost.append((line["run"], line["at"]))

    def close(self) -> None:
        """End what killed processes began, at the time of the kill."""
        for handling in self._open.values():
            if handling.run in self.killed:
                handling.end = max(handling.begin, self.killed[handling.run])
        self._open.clear()


def _content(line: Line) -> Content:
    return Content(line["number"], line["key"], line["type"])


NEVER = (-1.0, 0)  # an end before all others, and no event


class Span(NamedTuple):
    """When an event was handled, and its place. Times are in nanoseconds."""

    tick: int
    id: int
    begin: int
    end: float | None  # None: it never came to an end, and is not waited for


def inversions(spans: Iterable[Span], *, in_ticks: bool = True) -> Iterator[tuple[int, int]]:
    """Yield the ids of an earlier and a later event, once for each later one.

    An event is earlier if its id is lower, and its tick is not later; unless `in_ticks`, events of
    one tick have no order.
    """
    placed = sorted(spans)
    rank = {number: at for at, number in enumerate(sorted(span.id for span in placed), start=1)}
    ends = _LatestEnd(len(placed))
    for _, together in groupby(placed, lambda span: (span.tick, span.id if in_ticks else 0)):
        spans = list(together)
        for span in spans:
            end, earlier = ends.below(rank[span.id])
            if end > span.begin:
                yield earlier, span.id
        for span in spans:
            if span.end is not None:
                ends.add(rank[span.id], (span.end, span.id))


class _LatestEnd:
    """The latest end among the events below a rank: a binary indexed tree of maxima."""

    def __init__(self, size: int) -> None:
        self._tree = [NEVER] * (size + 1)

    def add(self, rank: int, end: tuple[float, int]) -> None:
        while rank < len(self._tree):
            self._tree[rank] = max(self._tree[rank], end)
            rank += rank & -rank

    def below(self, rank: int) -> tuple[float, int]:
        latest, rank = NEVER, rank - 1
        while rank > 0:
            latest = max(latest, self._tree[rank])
            rank -= rank & -rank
        return latest


if TYPE_CHECKING:
    _Groups = dict[tuple[Any, ...], dict[int, Span]]  # by key, then by event


class Violation(NamedTuple):
    """A promise that was not kept, and the events concerned."""

    promise: str  # one of PROMISES
    text: str
    events: tuple[int, ...]


LOST, PHANTOM, TWICE = "nothing lost", "nothing from a rollback", "nothing handled twice"
FILTER = "no event of other types"  # only with --types
ORDER, ALONE = "order per key", "one event of a key at a time"
PROMISES = (LOST, PHANTOM, TWICE)
KEY_PROMISES = (ORDER, ALONE)  # not with --shared


def check(history: History) -> list[Violation]:
    """Judge a history that has come to rest: everything was ticked, and handled or given up.

    Of one that is not complete, what was not handled is not judged.
    """
    found = [*_inserted(history), *_handled(history), *_given_up(history), *repeated(history)]
    if history.ordered:
        found += [*_alone(history), *_in_order(history)]
    return found


def _inserted(history: History) -> Iterator[Violation]:
    """Compare what the ticks show with what the producers know."""
    shown = {event.id: event for event in history.stored}
    times = Counter(event.id for event in history.stored)
    for number in (number for number, count in times.items() if count > 1):
        yield Violation(TWICE, "is in two ranges of ticks", (number,))
    for number, insert in history.inserts.items():
        if insert.outcome == "commit" and number not in shown:
            yield Violation(LOST, "was committed, and no tick shows it", (number,))
    for number, event in shown.items():
        known = history.inserts.get(number)
        if known is None:
            yield Violation(PHANTOM, "was inserted by no producer", (number,))
        elif known.outcome == "rollback":
            yield Violation(PHANTOM, "was rolled back, and a tick shows it", (number,))
        elif known.content != event.content:
            yield Violation(LOST, "is stored with another content", (number,))


def _handled(history: History) -> Iterator[Violation]:
    """Compare what was handled with what the ticks show."""
    handled = history.handled()
    shown = {event.id: event for event in history.stored}
    wanted = [event for event in shown.values() if history.takes(event.content)]
    for event in wanted:
        good = any(handling.outcome == "ok" for handling in handled.get(event.id, ()))
        if history.complete and not good and event.id not in history.dead:
            yield Violation(LOST, "was committed, and neither handled nor given up", (event.id,))
    for number, handlings in handled.items():
        if number not in shown:
            yield Violation(PHANTOM, "was handled, and no tick shows it", (number,))
        elif any(handling.content != shown[number].content for handling in handlings):
            yield Violation(LOST, "was handled with another content", (number,))
        elif not history.takes(shown[number].content):
            yield Violation(FILTER, "was handled, and is of another type", (number,))


def _given_up(history: History) -> Iterator[Violation]:
    """Find events that were given up, or retried, though their handlers give no reason."""
    shown = {event.id for event in history.stored}
    handled, lost = history.handled(), history.runs_that_lost_their_session
    for number in history.dead:
        handlings = handled.get(number, [])
        failed = sum(each.outcome == "failed" for each in handlings)
        retries = max(
            (each.retry or 0 for each in handlings if each.outcome == "failed"), default=0
        )
        cut_off = any(each.outcome == "none" for each in handlings)
        good = [each for each in handlings if each.outcome == "ok"]
        if number not in shown:
            yield Violation(PHANTOM, "was given up, and no tick shows it", (number,))
        elif retries < MAX_RETRIES and not (cut_off and len(history.killed) >= MAX_CRASHES):
            yield Violation(LOST, f"was given up after {failed} failures", (number,))
        elif any(each.run not in history.killed and each.run not in lost for each in good):
            yield Violation(LOST, "was given up, though it was handled", (number,))
    for number, handlings in handled.items():
        if not history.shared and any((each.retry or 0) > MAX_RETRIES for each in handlings):
            yield Violation(TWICE, "was retried though it is to be given up", (number,))


def repeated(history: History) -> Iterator[Violation]:
    """Find events that were handled again without a reason. None is one only for a while."""
    for number, handlings in history.handled().items():
        for before, after in pairwise(handlings):
            if after.begin < before.end:
                yield Violation(TWICE, "was handled twice at the same time", (number,))
            elif not _may_follow(history, before, after):
                what = "was handled again, though no kill had cut off its part"
                yield Violation(TWICE, f"{what} (runs {before.run}, {after.run})", (number,))


def _may_follow(history: History, before: Handling, after: Handling) -> bool:
    """Say whether the event had to come again: after a failure, or after its worker's end."""
    more = (after.retry or 0) - (before.retry or 0)
    if more == 0:
        return history.excused(before, after.begin)
    failed = before.outcome == "failed"
    if history.shared:  # a worker may have died with the event before its handler began
        return more > 0 and (failed or history.excused(before, after.begin))
    return failed and more == 1


def redelivered(history: History) -> int:
    """Count the handlings that repeat another one, because its worker was killed."""
    return sum(
        before.outcome != "failed" and history.excused(before, after.begin)
        for handlings in history.handled().values()
        for before, after in pairwise(handlings)
    )


def _alone(history: History) -> Iterator[Violation]:
    """Find events of one key that were handled at the same time.

    One that failed on a shared consumer has lost its key, unless it is parked.
    """
    lost_keys = history.shared and not history.parks
    latest: dict[str, Handling] = {}  # of those that began, the one that ends last
    for handling in sorted(history.handlings, key=lambda handling: handling.begin):
        if lost_keys and handling.retry is not None:
            continue
        key = handling.content.key
        other = latest.get(key)
        if other is not None and handling.begin < other.end and other.event != handling.event:
            text = f"of {key} were handled at the same time"
            yield Violation(ALONE, text, (other.event, handling.event))
        if other is None or handling.end > other.end:
            latest[key] = handling


def _in_order(history: History) -> Iterator[Violation]:
    """Find events that began before an earlier event of their key had ended.

    A retried event has lost its place: of each event the first delivery counts. A parked one has
    kept it: its delivery that did not fail counts. What one run handles again after a kill has
    an order too, so each run is looked at by itself as well.
    """
    seen = set()
    for key, spans in (*_first_deliveries(history).items(), *_of_each_run(history).items()):
        for earlier, later in inversions(spans.values(), in_ticks=not history.shared):
            if (earlier, later) not in seen:
                seen.add((earlier, later))
                text = f"of {key[-1]} are not in order: the second began before the first ended"
                yield Violation(ORDER, text, (earlier, later))
    for name, earlier, later in _repeated_behind(history):
        if (earlier, later) not in seen:
            text = f"of {name} are not in order: the first came again behind the second"
            yield Violation(ORDER, text, (earlier, later))


def _repeated_behind(history: History) -> Iterator[tuple[str, int, int]]:
    """Find events that a kill repeats, behind a later one of their key in another run."""
    places = {event.id: event.tick for event in history.stored}
    lost = history.runs_that_lost_their_session
    by_key: dict[str, list[Handling]] = {}
    for each in history.handlings:
        if each.retry is None and each.event in places:
            by_key.setdefault(each.content.key, []).append(each)
    for key, handlings in by_key.items():
        begins = [each.begin for each in handlings]
        last: dict[int, Handling] = {}
        for each in handlings:
            before = last.get(each.event)
            last[each.event] = each
            if before is None or before.run not in history.killed:
                continue
            start, end = bisect_right(begins, before.begin), bisect_left(begins, each.begin)
            for other in handlings[start:end]:
                ticks = places[other.event] - places[each.event]
                later = other.event > each.event and ticks >= history.shared
                if later and other.run != before.run and other.run not in lost:
                    yield key, each.event, other.event
                    break


def _first_deliveries(history: History) -> _Groups:
    """Return by key when each event began first, and from when the next one may begin."""
    first = [handlings[0] for handlings in history.handled().values()]
    ends = {
        event: _free_from(handlings, parks=history.parks)
        for event, handlings in history.handled().items()
    }
    found = [(handling, ends[handling.event]) for handling in first]
    return _grouped(history, [((it.content.key,), it, end) for it, end in found])


def _free_from(handlings: list[Handling], *, parks: bool) -> float | None:
    """Return from when the later events of its key may begin; None: never."""
    ends = [it.end for it in handlings if it.outcome != "none"]
    good = [it.end for it in handlings if it.outcome == "ok"]
    if parks and not good:
        return max(ends, default=None)  # given up
    return min(good if parks else ends, default=None)


def _of_each_run(history: History) -> _Groups:
    """Return by run and key when each event was first handled there; not if it lost its session."""
    runs = history.runs_that_lost_their_session
    mine = [it for it in history.handlings if it.retry is None and it.run not in runs]
    return _grouped(history, [((it.run, it.content.key), it, it.end) for it in mine])


def _grouped(
    history: History, found: list[tuple[tuple[Any, ...], Handling, float | None]]
) -> _Groups:
    ticks = {event.id: event.tick for event in history.stored}
    groups: _Groups = {}
    for key, it, end in found:
        if it.event in ticks:
            span = Span(ticks[it.event], it.event, it.begin, end)
            groups.setdefault(key, {}).setdefault(it.event, span)
    return groups
