"""The checker: the history of a simulation in, violations out. No I/O.

The truth of what was committed are the events that the ticks show. Two events of a key have an
order if one transaction inserted both, or if the first was committed before the second was
inserted. Events whose transactions overlapped may come in either order.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.simulate.options import LIMIT, MAX_CRASHES, MAX_RETRIES

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

    id: int
    content: Content


@dataclass
class Insert:
    """An event as its producer knows it."""

    content: Content
    began: int  # nanoseconds, before its statement was sent
    outcome: str = "unknown"  # commit or rollback
    ended: int = 0  # nanoseconds, when the producer knew the outcome


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

    inserts: dict[int, Insert] = field(default_factory=dict)  # by event
    stored: list[Stored] = field(default_factory=list)
    handlings: list[Handling] = field(default_factory=list)  # by the time that they began
    dead: set[int] = field(default_factory=set)  # events
    killed: dict[int, int] = field(default_factory=dict)  # when it was last alive, by run
    lost: list[tuple[int, int]] = field(default_factory=list)  # (run, when) it lost its session
    empty_polls: int = 0
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

        Only the last events that the worker had begun until then may come again: those of its last
        claim.
        """
        killed = self.killed.get(handling.run)
        ends = [at for run, at in self.lost if run == handling.run]
        if killed is not None:
            ends.append(killed)
        return any(
            handling.begin <= at <= again and self._is_unfinished(handling, at) for at in ends
        )

    def _is_unfinished(self, handling: Handling, at: int) -> bool:
        """Say whether the event may have been in the claim that its worker had at a time."""
        begins = self._begins[handling.run]
        began_since = bisect_right(begins, at) - bisect_left(begins, handling.begin)
        return began_since <= LIMIT + 1

    def _insert(self, line: Line) -> None:
        self.inserts[line["event"]] = Insert(_content(line), line["at"])

    def _commit(self, line: Line) -> None:
        for event in line["events"]:
            self.inserts[event].outcome = line["do"]
            self.inserts[event].ended = line["at"]

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

    def _start(self, _: Line) -> None:
        """Do nothing: a worker that starts has no event yet."""

    def _empty(self, _: Line) -> None:
        self.empty_polls += 1

    def close(self) -> None:
        """End what killed processes began, at the time of the kill."""
        for handling in self._open.values():
            if handling.run in self.killed:
                handling.end = max(handling.begin, self.killed[handling.run])
        self._open.clear()


def _content(line: Line) -> Content:
    return Content(line["number"], line["key"], line["type"])


class Violation(NamedTuple):
    """A promise that was not kept, and the events concerned."""

    promise: str  # one of PROMISES
    text: str
    events: tuple[int, ...]


LOST, PHANTOM, TWICE = "nothing lost", "nothing from a rollback", "nothing handled twice"
ORDER, ALONE = "order per key", "one event of a key at a time"
PROMISES = (LOST, PHANTOM, TWICE, ORDER, ALONE)


def check(history: History) -> list[Violation]:
    """Judge a history that has come to rest: everything was ticked, and handled or given up."""
    steps = (_inserted, _handled, _given_up, _repeated, _alone, _in_order)
    return [found for step in steps for found in step(history)]


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
    for event in shown.values():
        good = any(handling.outcome == "ok" for handling in handled.get(event.id, ()))
        if not good and event.id not in history.dead:
            yield Violation(LOST, "was committed, and neither handled nor given up", (event.id,))
    for number, handlings in handled.items():
        if number not in shown:
            yield Violation(PHANTOM, "was handled, and no tick shows it", (number,))
        elif any(handling.content != shown[number].content for handling in handlings):
            yield Violation(LOST, "was handled with another content", (number,))


def _given_up(history: History) -> Iterator[Violation]:
    """Find events that were given up, though their handlers give no reason."""
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


def _repeated(history: History) -> Iterator[Violation]:
    """Find events that were handled again without a reason."""
    for number, handlings in history.handled().items():
        for before, after in pairwise(handlings):
            if after.begin < before.end:
                yield Violation(TWICE, "was handled twice at the same time", (number,))
            elif not _may_follow(history, before, after):
                what = "was handled again, though no kill had cut off its claim"
                yield Violation(TWICE, f"{what} (runs {before.run}, {after.run})", (number,))


def _may_follow(history: History, before: Handling, after: Handling) -> bool:
    """Say whether the event had to come again: after a failure, or after its worker's end.

    The retry counts claims that ended without done, too: of workers that died before its handler.
    """
    more = (after.retry or 0) - (before.retry or 0)
    failed = before.outcome == "failed" and more > 0
    return failed or (more >= 0 and history.excused(before, after.begin))


def redelivered(history: History) -> int:
    """Count the handlings that repeat another one, because its worker was killed."""
    return sum(
        before.outcome != "failed" and history.excused(before, after.begin)
        for handlings in history.handled().values()
        for before, after in pairwise(handlings)
    )


def _alone(history: History) -> Iterator[Violation]:
    """Find events of one key that were handled at the same time."""
    latest: dict[str, Handling] = {}  # of those that began, the one that ends last
    for handling in sorted(history.handlings, key=lambda handling: handling.begin):
        key = handling.content.key
        other = latest.get(key)
        if other is not None and handling.begin < other.end and other.event != handling.event:
            text = f"of {key} were handled at the same time"
            yield Violation(ALONE, text, (other.event, handling.event))
        if other is None or handling.end > other.end:
            latest[key] = handling


class Place(NamedTuple):
    """An event among the others of its key. Times are in nanoseconds."""

    inserted: int
    event: int
    committed: int
    begin: int  # of its first handling
    end: float | None  # from then on the later events may begin; None: they do not wait for it


def _in_order(history: History) -> Iterator[Violation]:
    """Find events that began before an earlier event of their key was handled or given up."""
    keys: dict[str, list[Place]] = {}
    for event, handlings in history.handled().items():
        insert = history.inserts.get(event)
        if insert is not None and insert.outcome == "commit":
            times = (insert.began, event, insert.ended, handlings[0].begin, _end(handlings))
            keys.setdefault(insert.content.key, []).append(Place(*times))
    for key, places in keys.items():
        for events in inversions(places):
            text = f"of {key} are not in order: the second began before the first ended"
            yield Violation(ORDER, text, events)


def _end(handlings: list[Handling]) -> float | None:
    good = [it.end for it in handlings if it.outcome == "ok"]
    failed = [it.end for it in handlings if it.outcome == "failed"]
    return min(good, default=max(failed, default=None))


def inversions(places: Iterable[Place]) -> Iterator[tuple[int, int]]:
    """Yield an earlier and a later event that are not in order, once for each later one."""
    open_: list[tuple[int, float, int]] = []  # that may be committed by now, first the first
    latest = (-1.0, 0)  # the end of the earlier ones, and the event
    together: dict[int, tuple[float, int]] = {}  # the same of a transaction, by its commit
    for place in sorted(places):
        while open_ and open_[0][0] < place.inserted:
            latest = max(latest, heappop(open_)[1:])
        end, earlier = max(latest, together.get(place.committed, latest))
        if end > place.begin:
            yield earlier, place.event
        if place.end is not None:
            heappush(open_, (place.committed, place.end, place.event))
            before = together.get(place.committed, latest)
            together[place.committed] = max(before, (place.end, place.event))
