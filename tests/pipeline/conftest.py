"""What the pipeline's tests share: a queue that is ticked by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pgqpy
    from tests.spark.feed import Feed

collect_ignore_glob = [] if sys.version_info >= (3, 11) else ["test_*.py"]  # pyspark wants 3.11


@pytest.fixture
def feed(client: pgqpy.Client, dsn: str) -> Feed:
    """A queue to fill and to tick by hand, and to read from."""
    from tests.spark.feed import Feed

    return Feed(client, dsn)
