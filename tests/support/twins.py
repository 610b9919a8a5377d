"""The choice between twins: tests that differ only in the kind of client or consumer.

The sync code is generated from the async code, line for line: what is broken in one is broken in
the other. So a test runs with one kind, and half of the tests with each. Where a test has further
parameters, the kinds take turns. What every application calls, FACES, is tested with both.

`make test` does so, by PGQPY_TEST_TWINS=one. `make test ALL=1`, and pytest by itself, run each test
with both.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

KINDS = {"threads": 0, "asyncio": 1, "sync": 0, "async": 1}  # ids of fixtures' parameters
FACES = (
    "tests/client/test_consume.py",
    "tests/client/test_produce.py",
    "tests/client/test_transactions.py",
    "tests/consumers/test_plain.py",
    "tests/consumers/test_processes.py",
    "tests/consumers/test_transactional.py",
)


def leave_twins_out(items: list[pytest.Item], config: pytest.Config) -> None:
    """Deselect the tests whose twin runs, if PGQPY_TEST_TWINS says so."""
    if os.environ.get("PGQPY_TEST_TWINS") != "one":
        return
    cells: dict[str, dict[tuple[str, ...], pytest.Item]] = defaultdict(dict)
    for item in sorted(items, key=_place):
        if hasattr(item, "callspec"):
            ids = tuple(item.callspec._idlist)  # of each parametrize or fixture one
            cells[item.nodeid.partition("[")[0]][ids] = item
    kept = {name: set(turns(found, name)) for name, found in cells.items()}
    out = {
        item
        for name, found in cells.items()
        for ids, item in found.items()
        if ids not in kept[name]
    }
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]


def _place(item: pytest.Item) -> tuple[int, ...]:
    """Return where a test stands among those of its function: the order of items is random."""
    callspec = getattr(item, "callspec", None)
    return () if callspec is None else tuple(callspec.indices.values())


def turns(cells: Iterable[Sequence[str]], name: str) -> list[Sequence[str]]:
    """Return the cells of a test that run, by the ids of their parameters.

    The kinds take turns along each parameter. So each value of a parameter meets both kinds, if
    there is another parameter with several values. The test's name says which kind is the first.
    """
    cells = list(cells)
    ranks = [
        {each: n for n, each in enumerate(dict.fromkeys(ids))} for ids in zip(*cells, strict=True)
    ]
    kinds = [place for place, ids in enumerate(ranks) if len(ids) > 1 and set(ids) <= set(KINDS)]
    if not kinds:
        return cells
    (kind,) = kinds
    others = [place for place, ids in enumerate(ranks) if place != kind and len(ids) > 1]

    def without_kind(ids: Sequence[str]) -> tuple[str, ...]:
        return (*ids[:kind], *ids[kind + 1 :])

    twins = Counter(map(without_kind, cells))
    first = zlib.crc32(name.encode())

    def is_its_turn(ids: Sequence[str]) -> bool:
        turn = (first + sum(ranks[place][ids[place]] for place in others)) % 2
        return KINDS[ids[kind]] == turn or twins[without_kind(ids)] == 1

    both = not others and name.startswith(FACES)
    return [ids for ids in cells if both or is_its_turn(ids)]
