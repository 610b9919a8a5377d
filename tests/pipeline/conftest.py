"""What the pipeline's tests share: a queue that is ticked by hand, and the command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import pgqpy
    from tests.cli.support import Run
    from tests.spark.feed import Feed

collect_ignore_glob = [] if sys.version_info >= (3, 11) else ["test_*.py"]  # pyspark wants 3.11


@pytest.fixture
def feed(client: pgqpy.Client, dsn: str) -> Feed:
    """A queue to fill and to tick by hand, and to read from."""
    from tests.spark.feed import Feed

    return Feed(client, dsn)


@pytest.fixture
def run(spark: SparkSession, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process, on the tests' session of Spark."""
    from click.testing import CliRunner

    from pgqpy.cli.app import app

    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setenv("PGQPY_DSN", dsn)
    return lambda *args: CliRunner().invoke(app, args, prog_name="pgqpy")
