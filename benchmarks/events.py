"""The events of all contestants: the same text, about 200 bytes of it."""

# Debian's Python imports this too: nothing but the language.

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPE = "t"
SIZE = 200  # bytes of an event's data
FILLING = "x" * (SIZE - len('{"n": "000000", "data": ""}'))
DISTINCT = 100_000  # events; more than that begin again, so that a million fit in the memory


def data(number: int) -> str:
    """Return the data of an event with its number in it, as JSON, which every peer accepts."""
    return f'{{"n": "{number:06}", "data": "{FILLING}"}}'


def make(count: int) -> list[tuple[str, str]]:
    """Return events as (type, data), at most DISTINCT of them."""
    return [(TYPE, data(number)) for number in range(min(count, DISTINCT))]


def chunks(events: list[tuple[str, str]], count: int, size: int) -> Iterator[list[tuple[str, str]]]:
    """Iterate over `count` events in lists of `size`, from the beginning again where they end.

    `size` divides the number of events, if `count` exceeds it.
    """
    for start in range(0, count, size):
        place = start % len(events)
        yield events[place : place + min(size, count - start)]


def total(count: int) -> int:
    """Return the sum of the numbers of `count` events."""
    full, rest = divmod(count, DISTINCT)
    return full * (DISTINCT * (DISTINCT - 1) // 2) + rest * (rest - 1) // 2
