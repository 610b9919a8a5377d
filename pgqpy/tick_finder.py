"""The column tick_id: the first tick whose snapshot sees an event. Without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class Snapshot(NamedTuple):
    """A txid_snapshot: it sees transactions below xmax that were not in progress."""

    xmax: int
    in_progress: frozenset[int]

    def sees(self, txid: int) -> bool:
        """Return whether a transaction had ended."""
        return txid < self.xmax and txid not in self.in_progress


def parse_snapshot(text: str) -> Snapshot:
    """Parse `xmin:xmax:xid,xid,…`."""
    _xmin, xmax, xids = text.split(":")
    return Snapshot(int(xmax), frozenset(int(xid) for xid in xids.split(",") if xid))


class TickFinder(NamedTuple):
    """Finds the first tick of a range that sees a transaction. Small enough to send to executors.

    Nearly every transaction is seen by the first tick whose xmax is above it. Transactions that
    were in progress at that tick are listed in `late`, each with its tick.
    """

    ticks: tuple[int, ...]
    xmaxs: tuple[int, ...]
    late: tuple[tuple[int, int], ...]  # (xid, tick), ordered

    @classmethod
    def between(cls, ticks: Sequence[tuple[int, str]]) -> TickFinder:
        """Make a finder from (tick_id, snapshot as text), in order, from the range's start on."""
        snapshots = [(tick, parse_snapshot(text)) for tick, text in ticks]
        return cls(
            tuple(tick for tick, _ in snapshots[1:]),
            tuple(snapshot.xmax for _, snapshot in snapshots[1:]),
            tuple(sorted(_late(snapshots))),
        )

    def find(self, txids: Any) -> NDArray[np.int64]:
        """Return the tick of each transaction; the last tick for those that no tick sees."""
        ticks = np.asarray(self.ticks, dtype=np.int64)
        wanted = np.asarray(txids, dtype=np.int64)
        places = np.searchsorted(np.asarray(self.xmaxs, dtype=np.int64), wanted, side="right")
        found = ticks[np.minimum(places, len(ticks) - 1)]
        if self.late:
            xids, seen = np.asarray(self.late, dtype=np.int64).T
            near = np.minimum(np.searchsorted(xids, wanted), len(xids) - 1)
            found = np.where(xids[near] == wanted, seen[near], found)
        return found


def _late(snapshots: Iterable[tuple[int, Snapshot]]) -> Iterable[tuple[int, int]]:
    waiting: frozenset[int] = frozenset()
    for tick, snapshot in snapshots:
        for xid in waiting - snapshot.in_progress:
            yield xid, tick
        waiting = snapshot.in_progress
