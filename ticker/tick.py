"""The steps of the loop: tick queues that have new events, and those due by PGQ's own rules."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg.errors import LockNotAvailable

from pgqpy.ticker.statements import FIND_DUE, NAMES, POLL, PULSE, TICK, TICK_DUE, Row, Statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


RANGE_SIZE = 256  # queues: four ranges, a quarter of a millisecond each, hold a thousand
FEW_QUEUES = 32  # up to here every poll includes all queues, since choosing costs more
NO_WRITERS = b"NULL"
MIN_ID, MAX_ID = -(2**31), 2**31 - 1  # of PostgreSQL's int


class LastTick(NamedTuple):
    """A queue's event sequence at its last tick, and the writers open then; as SQL literals."""

    queue_id: bytes
    seq: bytes
    writers: bytes


class Selection(NamedTuple):
    """The parameters $2 to $7 of the statement POLL: a range, a list, and last ticks."""

    first: bytes
    last: bytes
    listed: bytes
    queue_ids: bytes
    seqs: bytes
    writers: bytes

    def covers(self, queue_id: int) -> bool:
        """Say whether the selection includes the queue."""
        listed = self.listed[1:-1].split(b",")
        return int(self.first) <= queue_id <= int(self.last) or b"%d" % queue_id in listed


class QueueRange:
    """The queues whose ids are in a range, with their last ticks as far as they are known."""

    def __init__(self, first: int, last: int, ticks: Iterable[tuple[int, LastTick]] = ()) -> None:
        self.first, self.last = first, last
        self.last_ticks = dict(ticks)
        self.waiting = {  # queues whose last tick left writers open
            queue_id for queue_id, tick in self.last_ticks.items() if tick.writers != NO_WRITERS
        }
        self.pulse: bytes | None = None  # at the last poll
        self._selection: Selection | None = None

    def put(self, queue_id: int, tick: LastTick | None) -> None:
        """Store a queue's last tick; None removes the queue."""
        if tick is not None:
            self.last_ticks[queue_id] = tick
        else:
            self.last_ticks.pop(queue_id, None)
        if tick is not None and tick.writers != NO_WRITERS:
            self.waiting.add(queue_id)
        else:
            self.waiting.discard(queue_id)
        self._selection = None

    def selection(self) -> Selection:
        """Return a selection of the whole range."""
        if self._selection is None:
            last_ticks = list(self.last_ticks.values())
            self._selection = Selection(*self.bounds(), b"{}", *literals(last_ticks))
        return self._selection

    def bounds(self) -> tuple[bytes, bytes]:
        """Return the first and the last id."""
        return b"%d" % self.first, b"%d" % self.last

    def halves(self) -> list[QueueRange]:
        """Divide the range into two with the same number of known queues."""
        ticks = sorted(self.last_ticks.items())
        middle = len(ticks) // 2
        cut = ticks[middle][0]
        return [
            QueueRange(self.first, cut - 1, ticks[:middle]),
            QueueRange(cut, self.last, ticks[middle:]),
        ]


class LastTicks:
    """The last tick of every queue: its event sequence, and the writers open then.

    Polling a queue costs a microsecond or two and two locks, and the server's lock table is finite.
    A poll therefore includes every queue that had events recently, but only a few of the ranges of
    ids into which the others are divided. After a write anywhere in the cluster, each range is
    polled once: first its pulse, a text that changes with its queues, and its queues only if the
    pulse has changed.

    A new object knows nothing, and so every queue is ticked once. A daemon that takes over must do
    that, since it cannot know which writers the last tick of its predecessor left open.
    """

    def __init__(self, queue_ids: Sequence[int] = ()) -> None:
        """Know no tick; `queue_ids`, in ascending order, decide how the ranges are cut."""
        bounds = [MIN_ID, *queue_ids[RANGE_SIZE::RANGE_SIZE], MAX_ID + 1]
        self.ranges = [QueueRange(first, end - 1) for first, end in pairwise(bounds)]
        self._firsts = [each.first for each in self.ranges]
        self._next = 0
        self.stale = len(self.ranges)  # ranges not polled since the last write

    def put(self, queue_id: int, seq: bytes, writers: bytes | None) -> None:
        """Store a tick at event sequence `seq`; `writers` were open just before its snapshot.

        Writers are names from pg_locks.virtualtransaction, separated by blanks. A writer that is
        prepared continues under another name: that costs one empty batch.
        """
        quoted = b'"%b"' % writers if writers else NO_WRITERS
        self._range_of(queue_id).put(queue_id, LastTick(b"%d" % queue_id, seq, quoted))

    def forget(self, queue_id: int) -> None:
        """Remove a queue: it is ticked as soon as a poll finds it again."""
        self._range_of(queue_id).put(queue_id, None)

    def all_queues(self) -> Selection | None:
        """Return a selection of all queues, None if there are more than a few."""
        few = len(self.ranges) == 1 and len(self.ranges[0].last_ticks) <= FEW_QUEUES
        return self.ranges[0].selection() if few else None

    def select(self, queue_ids: Sequence[int]) -> Selection:
        """Return a selection of these queues only."""
        ticks = [self._range_of(each).last_ticks.get(each) for each in queue_ids]
        known = literals([tick for tick in ticks if tick is not None])
        return Selection(b"1", b"0", array(queue_ids), *known)

    def make_stale(self) -> None:
        """Have every range polled once, after a write anywhere; divide those that have grown."""
        for index in reversed(range(len(self.ranges))):
            if len(self.ranges[index].last_ticks) > 2 * RANGE_SIZE:
                self.ranges[index : index + 1] = self.ranges[index].halves()
        self._firsts = [each.first for each in self.ranges]
        self.stale = len(self.ranges)

    def next_range(self) -> QueueRange:
        """Return the next range, in a circle."""
        self._next = (self._next + 1) % len(self.ranges)
        self.stale = max(0, self.stale - 1)
        return self.ranges[self._next]

    def bounds(self) -> list[tuple[bytes, bytes]]:
        """Return the first and the last id of each range."""
        return [each.bounds() for each in self.ranges]

    def _range_of(self, queue_id: int) -> QueueRange:
        return self.ranges[bisect_right(self._firsts, queue_id) - 1]


def array(queue_ids: Sequence[int]) -> bytes:
    """Return ids as an array literal."""
    return b"{%b}" % b",".join(b"%d" % each for each in queue_ids)


def literals(ticks: Sequence[LastTick]) -> tuple[bytes, bytes, bytes]:
    """Return ids, sequences and writers as three array literals."""
    if not ticks:
        return b"{}", b"{}", b"{}"
    ids, seqs, writers = (b"{%b}" % b",".join(column) for column in zip(*ticks, strict=True))
    return ids, seqs, writers


FIRST_PAUSE = 0.1  # seconds after one failure; twice that after two
LONGEST_PAUSE = 10.0  # seconds


class Failing(NamedTuple):
    """The number of failures in a row, and when (monotonic seconds) to try again."""

    times: int
    retry_at: float


NO_FAILURE = Failing(0, 0.0)


class Backoff(dict[str, Failing]):
    """The failing queues, by name."""

    def failed(self, name: str, now: float) -> int:
        """Record a failure; return the number of failures in a row."""
        times = self.get(name, NO_FAILURE).times + 1
        # The exponent is bounded: a float overflows after a thousand failures.
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(times - 1, 30))
        self[name] = Failing(times, now + pause)
        return times

    def succeeded(self, name: str) -> int:
        """Record a success; return the number of failures in a row before it."""
        return self.pop(name, NO_FAILURE).times

    def pausing(self, name: str, now: float) -> bool:
        """Say whether the queue is in its pause."""
        return now < self.get(name, NO_FAILURE).retry_at

    def due(self, now: float) -> list[str]:
        """Return the failing queues that may be tried again now."""
        return [name for name, failing in self.items() if failing.retry_at <= now]


HOT_FOR = 2.0  # seconds after its last tick in which every poll includes the queue
HOT_QUEUES = 256  # at most; more are polled as fast in ranges
ROUND = 0.016  # seconds in which all ranges are polled once after a write
RANGES = 4  # at most, in one poll
BUSY_RANGES = 2  # at most, while hot queues wait for the next poll
NO_SNAPSHOT = b""  # equals no snapshot: the poll reads the queues in any case
TRUE = b"t"


class Failure(NamedTuple):
    """A queue that could not be ticked, the error, and the number of failures in a row."""

    queue: str
    error: Exception
    times: int


@dataclass(slots=True)
class Ticked:
    """The result of one poll: ticks as (queue, tick id), failures, and queues that work again."""

    ticks: list[tuple[str, str]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)


NOTHING = Ticked()


@dataclass(slots=True)
class TickState:
    """What one active session remembers from poll to poll."""

    last_ticks: LastTicks = field(default_factory=LastTicks)
    failing: Backoff = field(default_factory=Backoff)
    failing_ids: dict[str, int] = field(default_factory=dict)
    # queues whose sequence another session locks: a poll that includes one fails as a whole
    locked: set[int] = field(default_factory=set)
    hot: dict[int, float] = field(default_factory=dict)  # time of the last tick, oldest first
    snapshot: bytes = NO_SNAPSHOT  # of the last poll
    range_at: float = -ROUND  # when the next range is to be polled, monotonic seconds

    def known_snapshot(self, now: float) -> bytes:
        """Return the snapshot with which a poll finds nothing to do, or NO_SNAPSHOT."""
        return NO_SNAPSHOT if self.failing and self.failing.due(now) else self.snapshot

    def ticked(self, queue_id: int, now: float) -> None:
        """Have every poll include this queue for a while: more events are likely."""
        self.hot.pop(queue_id, None)
        self.hot[queue_id] = now

    def hot_ids(self, now: float) -> list[int]:
        """Return the queues for every poll, and failed queues that may be tried again."""
        while self.hot:
            oldest, when = next(iter(self.hot.items()))
            if now - when < HOT_FOR and len(self.hot) <= HOT_QUEUES:
                break
            del self.hot[oldest]
        again = (self.failing_ids[name] for name in self.failing.due(now))
        return list(dict.fromkeys([*self.hot, *islice(again, HOT_QUEUES)]))

    def next_ranges(self, now: float) -> Iterator[QueueRange]:
        """Yield the stale ranges to poll now, so that a round takes ROUND seconds."""
        self.range_at = max(self.range_at, now - ROUND)
        for _ in range(BUSY_RANGES if self.hot else RANGES):
            if not self.last_ticks.stale or self.range_at >= now:
                return
            self.range_at += ROUND / len(self.last_ticks.ranges)
            yield self.last_ticks.next_range()

    def failed(self, queue: str, queue_id: int, now: float) -> int:
        """Record a failure; return the number of failures in a row."""
        self.failing_ids[queue] = queue_id
        return self.failing.failed(queue, now)

    def succeeded(self, queue: str) -> int:
        """Record that a queue does not fail any more; return the number of failures before."""
        self.failing_ids.pop(queue, None)
        return self.failing.succeeded(queue)


def tick(statements: Statements, state: TickState, *, now: float) -> Ticked:
    """Poll once and tick every queue that has changed; `now` is monotonic seconds.

    With many queues, one poll includes the hot queues and a few ranges: call this again until
    `state.last_ticks.stale` is 0.

    All changed queues are ticked in one transaction if possible. If one fails, each is ticked in
    its own, and the failing queue is left out for a while. An error that concerns all queues (no
    connection, no schema) is raised.
    """
    poll = Poll(statements, state, now)
    known = state.known_snapshot(now)
    everything = state.last_ticks.all_queues()
    hot = state.hot_ids(now)
    snapshot = poll.tick_changed(everything or state.last_ticks.select(hot), known)
    if everything:
        state.last_ticks.stale = 0
    elif snapshot != state.snapshot:
        state.last_ticks.make_stale()
    state.snapshot = snapshot
    for each in state.next_ranges(now):
        poll.tick_range(each, hot)
    return poll.result()


class Poll:
    """One call of `tick`: ticks selections of queues, and collects the result."""

    def __init__(self, statements: Statements, state: TickState, now: float) -> None:
        self._statements = statements
        self._state = state
        self._now = now
        self._done = Ticked()

    def tick_changed(self, selection: Selection, known: bytes) -> bytes:
        """Tick what has changed among these queues, and return the snapshot.

        Nothing is read if the snapshot equals `known`.
        """
        unlocked = self._unlocked(selection) if self._state.locked else selection
        rows = self._poll_and_tick(unlocked, known)
        snapshot: bytes = rows[0][0]
        found = rows if rows[0][1] is not None else ()
        for _, queue_id, name, seq, writers, changed, tick_id in found:
            if tick_id is not None:
                self._ticked(int(queue_id), name, seq, writers, tick_id)
            elif seq is None:  # dropped or paused
                self._state.last_ticks.forget(int(queue_id))
            elif changed == TRUE:
                self._tick_alone(int(queue_id), name, seq, writers)
        if self._state.failing and snapshot != known:
            changed_queues = {row[2].decode() for row in found if row[5] == TRUE}
            self._forget_failures(selection, changed_queues)
        return snapshot

    def tick_range(self, queues: QueueRange, polled: list[int]) -> None:
        """Tick what has changed in a range, without the `polled` queues.

        The pulse is read first: a change between the two statements costs one poll more.
        """
        first, last = queues.bounds()
        others = [*polled, *self._state.locked]
        excluded = [each for each in others if queues.first <= each <= queues.last]
        try:
            ((pulse,),) = self._statements.run(PULSE, first, last, array(excluded))
        except LockNotAvailable:
            pulse = None
        if pulse is None or pulse != queues.pulse or queues.waiting:
            self.tick_changed(queues.selection(), NO_SNAPSHOT)
        queues.pulse = pulse

    def result(self) -> Ticked:
        """Return what was ticked, what failed, and what works again."""
        return NOTHING if self._done == NOTHING else self._done

    def _poll_and_tick(self, selection: Selection, known: bytes) -> list[Row]:
        """Run POLL, which ticks all changed queues but the failing ones; if it fails, only poll.

        If that fails too, the sequence of a queue is locked: poll without the locked queues.
        """
        failing = array([*self._state.failing_ids.values()])
        try:
            return self._statements.run(POLL, known, *selection, failing)
        except psycopg.Error:
            if self._statements.connection.closed:
                raise
        try:
            return self._statements.run(POLL, known, *selection, b"{NULL}")
        except LockNotAvailable:
            for queue_id, name in self._statements.run(NAMES, *selection[:3]):
                self._probe(int(queue_id), name)
        return self._statements.run(POLL, known, *self._unlocked(selection), b"{NULL}")

    def _unlocked(self, selection: Selection) -> Selection:
        """Return a selection without its locked queues; those whose pause is over are probed."""
        found = {int(row[0]): row[1] for row in self._statements.run(NAMES, *selection[:3])}
        for queue_id in [*self._state.locked]:
            if queue_id not in found:
                if selection.covers(queue_id):  # dropped or paused
                    self._state.locked.discard(queue_id)
            elif not self._state.failing.pausing(found[queue_id].decode(), self._now):
                self._probe(queue_id, found[queue_id])
        unlocked = [each for each in found if each not in self._state.locked]
        return self._state.last_ticks.select(unlocked)

    def _probe(self, queue_id: int, name: bytes) -> None:
        """Record whether the queue's sequence is locked, which is a failure of this queue only."""
        text = b"%d" % queue_id
        try:
            self._statements.run(PULSE, text, text, b"{}")
        except LockNotAvailable as exc:
            self._state.locked.add(queue_id)
            self._failed(queue_id, name.decode(), exc)
        else:
            self._state.locked.discard(queue_id)

    def _ticked(
        self, queue_id: int, name: bytes, seq: bytes, writers: bytes | None, tick_id: bytes
    ) -> None:
        self._state.last_ticks.put(queue_id, seq, writers)
        self._state.ticked(queue_id, self._now)
        self._done.ticks.append((name.decode(), tick_id.decode()))

    def _tick_alone(self, queue_id: int, name: bytes, seq: bytes, writers: bytes | None) -> None:
        """Tick a queue in a transaction of its own, unless it failed a moment ago."""
        queue = name.decode()
        if self._state.failing.pausing(queue, self._now):
            return
        try:
            made = self._statements.run(TICK, name)
        except psycopg.Error as exc:
            if self._statements.connection.closed:
                raise
            self._failed(queue_id, queue, exc)
            return
        if made:
            self._ticked(queue_id, name, seq, writers, made[0][0])
        if self._state.succeeded(queue):
            self._done.recovered.append(queue)

    def _failed(self, queue_id: int, queue: str, exc: psycopg.Error) -> None:
        times = self._state.failed(queue, queue_id, self._now)
        self._done.failures.append(Failure(queue, exc, times))

    def _forget_failures(self, selection: Selection, changed: set[str]) -> None:
        """Forget failures of queues in the selection that need no tick any more, or are gone."""
        for queue, queue_id in list(self._state.failing_ids.items()):
            forgotten = queue not in changed and selection.covers(queue_id)
            if forgotten and queue_id not in self._state.locked:
                self._state.succeeded(queue)


ROUND_RANGES = 4  # at most, in one period: with thousands of queues a round takes longer
TOGETHER = 16  # queues ticked in one transaction: a millisecond, so that events do not wait long


class DueTicks:
    """Ticks the due queues once a period, in small steps between two polls for events.

    A queue without events also needs a tick now and then, so that positions of consumers advance
    and tables can rotate. Queues created together are due together. A thousand ticks at once would
    delay the events of other queues: hence the steps.
    """

    def __init__(self, period: float) -> None:
        """Start the first round at once, and the next ones every `period` seconds."""
        self._period = period
        self._next = 0.0  # monotonic seconds
        self._ranges: list[tuple[bytes, bytes]] = []  # not yet searched in this round
        self._queues: list[str] = []  # found due, not yet ticked
        self._found: set[str] = set()  # in this round
        self.failing = Backoff()

    @property
    def working(self) -> bool:
        """Whether this round has another step."""
        return bool(self._queues or self._ranges)

    def is_due(self, now: float) -> bool:
        """Say whether a step would ask the server."""
        return self.working or now >= self._next

    def step(self, statements: Statements, last_ticks: LastTicks, *, now: float) -> Ticked:
        """Do the next step of a round, or start one; `now` is monotonic seconds. Only if it is due.

        Raises psycopg.Error, and ends the round, if the due queues cannot be read.
        """
        if not self.working:
            self._ranges = last_ticks.bounds()
            self._next = now + self._period * max(1.0, len(self._ranges) / ROUND_RANGES)
            self._found = set()
        if not self._queues:
            self._find(statements, now)
        queues, self._queues = self._queues[:TOGETHER], self._queues[TOGETHER:]
        done = self._tick(statements, queues, now) if queues else NOTHING
        if not self.working:  # others are not due any more, or gone
            for queue in self.failing.keys() - self._found:
                del self.failing[queue]
        return done

    def _find(self, statements: Statements, now: float) -> None:
        """Read which queues of the next range are due."""
        (bounds, *others), self._ranges = self._ranges, []
        found = [row[0].decode() for row in statements.run(FIND_DUE, *bounds)]
        self._ranges = others
        self._found.update(found)
        self._queues = [queue for queue in found if not self.failing.pausing(queue, now)]

    def _tick(self, statements: Statements, queues: list[str], now: float) -> Ticked:
        """Tick queues in one transaction, or each in its own if that fails."""
        if not self.failing:
            try:
                return Ticked(tick_due(statements, queues))
            except psycopg.Error:
                if statements.connection.closed:
                    raise
        done = Ticked()
        for queue in queues:
            try:
                done.ticks += tick_due(statements, [queue])
                self.failing.succeeded(queue)
            except psycopg.Error as exc:
                if statements.connection.closed:
                    raise
                done.failures.append(Failure(queue, exc, self.failing.failed(queue, now)))
        return done


def tick_due(statements: Statements, queues: list[str]) -> list[tuple[str, str]]:
    """Tick those of the queues that are due, in one transaction; return (queue, tick id)."""
    rows = statements.run(TICK_DUE, json.dumps(queues, ensure_ascii=False).encode())
    return [(name.decode(), tick_id.decode()) for name, tick_id in rows if tick_id is not None]
