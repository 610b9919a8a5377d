"""The last tick of every queue, by ranges of queue ids.

Polling a queue costs a microsecond or two and two locks, and the server's lock table is finite. A
poll therefore includes every queue that had events recently, but only a few of the ranges of ids
into which the others are divided. After a write anywhere in the cluster, each range is polled once:
first its pulse, a text that changes with its queues, and its queues only if the pulse has changed.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
