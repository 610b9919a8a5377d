"""Fixtures: a queue that is ticked by hand, and one Spark session for all tests that need one."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.feed import Feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    import pgqpy
    from tests.spark.feed import Stream

collect_ignore_glob = [] if sys.version_info >= (3, 11) else ["test_*.py"]  # pyspark wants 3.11

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stopTimeout": "30s",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on local[2] with the source registered: see tests/support/groups.py."""
    from pyspark.sql import SparkSession

    from pgqpy.spark import register

    home = tmp_path_factory.mktemp("spark")
    # What Spark starts would otherwise be the python3 of the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    places = {"spark.local.dir": str(home), "spark.sql.warehouse.dir": str(home / "warehouse")}
    for name, value in {**SETTINGS, **places}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


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
