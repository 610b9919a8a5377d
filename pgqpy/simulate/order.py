"""Search for events that began before another one, which has its place before them, had ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NEVER = (-1.0, 0)  # an end before all others, and no event


class Span(NamedTuple):
    """When an event was handled, and its place. Times are in nanoseconds."""

    tick: int
    id: int
    begin: int
    end: float | None  # None: it never came to an end, and is not waited for


def inversions(spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
    """Yield the ids of an earlier and a later event, once for each later one.

    An event is earlier if its id is lower, and its tick is not later.
    """
    placed = sorted(spans)
    rank = {number: at for at, number in enumerate(sorted(span.id for span in placed), start=1)}
    ends = _LatestEnd(len(placed))
    for span in placed:
        end, earlier = ends.below(rank[span.id])
        if end > span.begin:
            yield earlier, span.id
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
