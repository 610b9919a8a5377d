"""The duty that everything waits for: tick the queues that have something new."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg.errors import LockNotAvailable

from pgqpy.ticker.state import UNKNOWN
from pgqpy.ticker.statements import NAMES, PULSE, TICK, TURN, Row, Statements
from pgqpy.ticker.watch import array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.ticker.state import TickState
    from pgqpy.ticker.watch import Part, Slice


class Failure(NamedTuple):
    """A queue that could not be ticked, why, and how often in a row that was so."""

    queue: str
    error: Exception
    times: int


class Ticked(NamedTuple):
    """What one look did: ticks as (queue, tick id), failures, and queues that work again."""

    ticks: Sequence[tuple[str, str]] = ()
    failures: Sequence[Failure] = ()
    recovered: Sequence[str] = ()


NOTHING = Ticked()
TRUE = b"t"


def tick(statements: Statements, state: TickState, *, now: float) -> Ticked:
    """Look once and tick every queue that is found due; `now` is monotonic seconds.

    With many queues a look goes to those that had events lately, and to a slice of the others:
    call it again until `state.watch.stale` is 0.

    All that is due is ticked in one transaction, as long as that goes well. If one fails, each is
    ticked by itself, and the one that fails is left alone for a while; what concerns all of them
    (no connection, no schema) is raised.
    """
    turn = Turn(statements, state, now)
    known = state.known_snapshot(now)
    everything = state.watch.everything()
    hot = state.hot_ids(now)
    snapshot = turn.look(everything or state.watch.chosen(hot), known)
    if everything:
        state.watch.stale = 0
    elif snapshot != state.snapshot:
        state.watch.written()
    state.snapshot = snapshot
    for each in state.next_slices(now):
        turn.look_at_slice(each, hot)
    return turn.done()


class Turn:
    """What one call of `tick` does."""

    def __init__(self, statements: Statements, state: TickState, now: float) -> None:
        """Take what `tick` was given."""
        self._statements = statements
        self._state = state
        self._now = now
        self._ticks: list[tuple[str, str]] = []
        self._failures: list[Failure] = []
        self._recovered: list[str] = []

    def look(self, part: Part, known: bytes) -> bytes:
        """Look at these queues unless the snapshot is the known one; return the snapshot."""
        rows = self._rows(self._unlocked(part) if self._state.locked else part, known)
        snapshot: bytes = rows[0][0]
        found = rows if rows[0][1] is not None else ()
        for _, queue_id, name, seq, writers, due, tick_id in found:
            if tick_id is not None:
                self._ticked(int(queue_id), name, seq, writers, tick_id)
            elif seq is None:  # dropped or paused
                self._state.watch.forget(int(queue_id))
            elif due == TRUE:
                self._tick_apart(int(queue_id), name, seq, writers)
        if self._state.failing and snapshot != known:
            self._forgive(part, {row[2].decode() for row in found if row[5] == TRUE})
        return snapshot

    def look_at_slice(self, part: Slice, seen: list[int]) -> None:
        """Look at a slice, but for the queues already `seen`, closely if anything has changed.

        The pulse is asked for first: what changes in between makes one look more, not one less.
        """
        excluded = part.listed([*seen, *self._state.locked])
        try:
            ((pulse,),) = self._statements.run(PULSE, *part.bounds(), excluded)
        except LockNotAvailable:
            pulse = None
        if pulse is None or pulse != part.pulse or part.waiting:
            self.look(part.part(), UNKNOWN)
        part.pulse = pulse

    def done(self) -> Ticked:
        """Return what was done."""
        if not (self._ticks or self._failures or self._recovered):
            return NOTHING
        return Ticked(self._ticks, self._failures, self._recovered)

    def _rows(self, part: Part, known: bytes) -> list[Row]:
        """Run the statement, that ticks what is due but not failing, if that is possible."""
        apart = array([*self._state.failing_ids.values()])
        try:
            return self._statements.run(TURN, known, *part, apart)
        except psycopg.Error:
            if self._statements.connection.closed:
                raise
        try:
            return self._statements.run(TURN, known, *part, b"{NULL}")
        except LockNotAvailable:
            self._find_locked(part)
        return self._statements.run(TURN, known, *self._unlocked(part), b"{NULL}")

    def _find_locked(self, part: Part) -> None:
        """Note the queues of a part whose sequences another session keeps locked."""
        for queue_id, name in self._statements.run(NAMES, *part[:3]):
            self._probe(int(queue_id), name)

    def _unlocked(self, part: Part) -> Part:
        """Return the queues of a part but for those that are locked and not to be tried again."""
        found = {int(row[0]): row[1] for row in self._statements.run(NAMES, *part[:3])}
        for queue_id in [*self._state.locked]:
            if queue_id not in found:
                if part.covers(queue_id):  # dropped or paused
                    self._state.locked.discard(queue_id)
            elif not self._state.failing.pausing(found[queue_id].decode(), self._now):
                self._probe(queue_id, found[queue_id])
        return self._state.watch.chosen([each for each in found if each not in self._state.locked])

    def _probe(self, queue_id: int, name: bytes) -> None:
        """Note whether the queue's sequence is locked: that is a failure of this queue only."""
        text = b"%d" % queue_id
        try:
            self._statements.run(PULSE, text, text, b"{}")
        except LockNotAvailable as exc:
            queue = name.decode()
            self._state.locked.add(queue_id)
            times = self._state.failed(queue, queue_id, self._now)
            self._failures.append(Failure(queue, exc, times))
        else:
            self._state.locked.discard(queue_id)

    def _ticked(
        self, queue_id: int, name: bytes, seq: bytes, writers: bytes | None, tick_id: bytes
    ) -> None:
        self._state.watch.ticked(queue_id, seq, writers)
        self._state.ticked(queue_id, self._now)
        self._ticks.append((name.decode(), tick_id.decode()))

    def _tick_apart(self, queue_id: int, name: bytes, seq: bytes, writers: bytes | None) -> None:
        """Tick a queue in a transaction of its own, unless it failed just before."""
        queue, now = name.decode(), self._now
        if self._state.failing.pausing(queue, now):
            return
        try:
            made = self._statements.run(TICK, name)
        except psycopg.Error as exc:
            if self._statements.connection.closed:
                raise
            self._failures.append(Failure(queue, exc, self._state.failed(queue, queue_id, now)))
            return
        if made:
            self._ticked(queue_id, name, seq, writers, made[0][0])
        if self._state.succeeded(queue):
            self._recovered.append(queue)

    def _forgive(self, part: Part, due: set[str]) -> None:
        """Forget failures of queues that were looked at and are not due any more, or are gone."""
        for queue, queue_id in list(self._state.failing_ids.items()):
            if queue not in due and part.covers(queue_id) and queue_id not in self._state.locked:
                self._state.succeeded(queue)
