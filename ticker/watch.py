"""Which queues have something that no tick shows yet: the decision, without any I/O.

Two things make a queue due. Its event sequence moved: somebody took an event id since the last
tick. Or a transaction that had taken ids before the last tick, and was still open then, has
ended: its events have ids that the tick already counted, so the sequence does not move again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Writers = frozenset[str]  # open transactions, as pg_locks.virtualtransaction names them
NOBODY: Writers = frozenset()


@dataclass(slots=True)
class Watch:
    """What the last tick of every queue has counted, and whom it did not wait for."""

    counted: dict[str, int] = field(default_factory=dict)
    open_writers: dict[str, Writers] = field(default_factory=dict)

    def moved(self, activity: Mapping[str, int]) -> list[str]:
        """Return the queues whose sequence moved, and those never ticked by us.

        A queue that `activity` does not name (dropped, paused) is forgotten, so that it is
        ticked at once when it comes back.
        """
        for queue in self.counted.keys() - activity.keys():
            self.forget(queue)
        return [queue for queue, seq in activity.items() if self.counted.get(queue) != seq]

    def waiting(self) -> list[str]:
        """Return the queues whose last tick left open writers behind."""
        return list(self.open_writers)

    def ended(self, writers: Mapping[str, Writers]) -> list[str]:
        """Return the queues of which a writer that the last tick did not see has ended.

        A transaction that is prepared goes on under another name: that costs one empty batch.
        """
        return [
            queue
            for queue, before in self.open_writers.items()
            if before - writers.get(queue, NOBODY)
        ]

    def ticked(self, queue: str, seq: int, writers: Writers) -> None:
        """Note a tick: it counted `seq`, and `writers` were open just before its snapshot."""
        self.counted[queue] = seq
        if writers:
            self.open_writers[queue] = writers
        else:
            self.open_writers.pop(queue, None)

    def forget(self, queue: str) -> None:
        """Tick the queue at the next look, whatever its sequence says."""
        self.counted.pop(queue, None)
        self.open_writers.pop(queue, None)


def by_queue(rows: Iterable[tuple[str, str]]) -> dict[str, Writers]:
    """Group (queue, writer) rows."""
    found: dict[str, set[str]] = {}
    for queue, writer in rows:
        found.setdefault(queue, set()).add(writer)
    return {queue: frozenset(writers) for queue, writers in found.items()}
