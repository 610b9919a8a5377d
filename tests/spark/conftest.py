"""Fixtures: a queue that is ticked by hand, and readers of it."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.feed import Feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pgqpy
    from tests.spark.feed import Stream

collect_ignore_glob = [] if sys.version_info >= (3, 11) else ["test_*.py"]  # pyspark wants 3.11


@pytest.fixture
def feed(client: pgqpy.Client, dsn: str) -> Feed:
    """A queue to fill and to tick by hand, and to read from."""
    return Feed(client, dsn)


@pytest.fixture
def start(feed: Feed) -> Iterator[Callable[..., Stream]]:
    """Make readers of streams, `start(option=value)`; they are stopped at the end."""
    with ExitStack() as stack:

        def make(**options: Any) -> Stream:
            stream = feed.stream(**options)
            stack.callback(stream.close)
            return stream

        yield make


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Where a query may keep its checkpoint."""
    return str(tmp_path / "checkpoint")
