"""The history of a simulation: what was inserted, what the ticks show, who handled what. No I/O."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.simulate.options import PART_SIZE, matches

if TYPE_CHECKING:
    from collections.abc import Iterable

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
