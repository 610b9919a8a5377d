"""What the tick loop knows of each queue's last tick, in slices that are looked at in turns.

A look costs a microsecond or two and two locks for each queue, and the server's lock table is
finite. So with many queues those that had events a moment ago are looked at every time, and of all
the others one slice at a time: after something was written anywhere, each slice once, and closely
only if its pulse says that something has changed there.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SLICE = 256  # queues: four looks, of a quarter of a millisecond each, go round a thousand
FEW = 32  # queues up to which all are looked at every time, since choosing costs more
NOBODY = b"NULL"
FIRST, LAST = -(2**31), 2**31 - 1  # of PostgreSQL's int


class Known(NamedTuple):
    """What a queue's last tick counted, and which writers it did not wait for; as SQL literals."""

    queue_id: bytes
    seq: bytes
    writers: bytes


class Part(NamedTuple):
    """The queues of a look, as the statement TURN takes them: a range, a list, what is known."""

    first: bytes
    last: bytes
    listed: bytes
    queue_ids: bytes
    seqs: bytes
    writers: bytes

    def covers(self, queue_id: int) -> bool:
        """Say whether a queue with this id would have been seen."""
        listed = self.listed[1:-1].split(b",")
        return int(self.first) <= queue_id <= int(self.last) or b"%d" % queue_id in listed


class Slice:
    """The queues whose ids are in a range, known or not yet."""

    __slots__ = ("_part", "first", "known", "last", "pulse", "waiting")

    def __init__(self, first: int, last: int, known: Iterable[tuple[int, Known]] = ()) -> None:
        """Take the range, and what is known of it."""
        self.first, self.last = first, last
        self.known = dict(known)
        self.waiting = {
            each for each, each_known in self.known.items() if each_known.writers != NOBODY
        }
        self.pulse: bytes | None = None  # of the last look
        self._part: Part | None = None

    def put(self, queue_id: int, known: Known | None) -> None:
        """Note what is known of a queue, None to forget it."""
        if known is not None:
            self.known[queue_id] = known
        else:
            self.known.pop(queue_id, None)
        if known is not None and known.writers != NOBODY:
            self.waiting.add(queue_id)
        else:
            self.waiting.discard(queue_id)
        self._part = None

    def part(self) -> Part:
        """Return what to look at, to find what has changed here."""
        if self._part is None:
            self._part = Part(*self.bounds(), b"{}", *literals(list(self.known.values())))
        return self._part

    def bounds(self) -> tuple[bytes, bytes]:
        """Return the first and the last id."""
        return b"%d" % self.first, b"%d" % self.last

    def listed(self, queue_ids: Sequence[int]) -> bytes:
        """Return those of these queues that are in the range, as an array literal."""
        return array([each for each in queue_ids if self.first <= each <= self.last])

    def halves(self) -> list[Slice]:
        """Return two slices in place of this one, with as many known queues each."""
        known = sorted(self.known.items())
        middle = len(known) // 2
        cut = known[middle][0]
        return [Slice(self.first, cut - 1, known[:middle]), Slice(cut, self.last, known[middle:])]


class Watch:
    """What the last tick of every queue counted, and which writers it did not wait for.

    A new one knows nothing, and so every queue is ticked once: what a daemon that takes over must
    do, since it cannot know for whom its predecessor was still waiting.
    """

    __slots__ = ("_firsts", "_next", "_slices", "stale")

    def __init__(self, queue_ids: Sequence[int] = ()) -> None:
        """Know nothing of any queue; the ids, in their order, only tell how to slice them."""
        bounds = [FIRST, *queue_ids[SLICE::SLICE], LAST + 1]
        self._slices = [Slice(first, end - 1) for first, end in pairwise(bounds)]
        self._firsts = [each.first for each in self._slices]
        self._next = 0
        self.stale = len(self._slices)  # slices not looked at since something was written

    def ticked(self, queue_id: int, seq: bytes, writers: bytes | None) -> None:
        """Note a tick that counted `seq`; `writers` were open just before its snapshot.

        Writers are names from pg_locks.virtualtransaction with blanks between. One that is
        prepared goes on under another name: that costs one empty batch.
        """
        quoted = b'"%b"' % writers if writers else NOBODY
        self._slice(queue_id).put(queue_id, Known(b"%d" % queue_id, seq, quoted))

    def forget(self, queue_id: int) -> None:
        """Tick the queue as soon as it is seen again, whatever its sequence says then."""
        self._slice(queue_id).put(queue_id, None)

    def everything(self) -> Part | None:
        """Return all queues as one part, if they are few."""
        few = len(self._slices) == 1 and len(self._slices[0].known) <= FEW
        return self._slices[0].part() if few else None

    def chosen(self, queue_ids: Sequence[int]) -> Part:
        """Return some queues as one part."""
        known = [self._slice(each).known.get(each) for each in queue_ids]
        found = [each for each in known if each is not None]
        listed, seqs, writers = literals(found)
        return Part(
            b"1",
            b"0",
            array(queue_ids),
            listed,
            seqs,
            writers,
        )

    def written(self) -> None:
        """Make every slice stale: something was written, who knows where."""
        for index in reversed(range(len(self._slices))):
            if len(self._slices[index].known) > 2 * SLICE:
                self._slices[index : index + 1] = self._slices[index].halves()
        self._firsts = [each.first for each in self._slices]
        self.stale = len(self._slices)

    def next(self) -> Slice:
        """Return the next slice."""
        self._next = (self._next + 1) % len(self._slices)
        self.stale = max(0, self.stale - 1)
        return self._slices[self._next]

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return len(self._slices)

    def ranges(self) -> list[tuple[bytes, bytes]]:
        """Return the first and last id of each slice."""
        return [each.bounds() for each in self._slices]

    def _slice(self, queue_id: int) -> Slice:
        return self._slices[bisect_right(self._firsts, queue_id) - 1]


def array(queue_ids: Sequence[int]) -> bytes:
    """Return ids as an array literal."""
    return b"{%b}" % b",".join(b"%d" % each for each in queue_ids)


def literals(known: Sequence[Known]) -> tuple[bytes, bytes, bytes]:
    """Return ids, sequences and writers as three array literals."""
    if not known:
        return b"{}", b"{}", b"{}"
    ids, seqs, writers = (b"{%b}" % b",".join(column) for column in zip(*known, strict=True))
    return ids, seqs, writers
