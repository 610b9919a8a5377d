"""`pgqpy pipeline run` as a process: stopped, killed, and without its server for a while."""

from __future__ import annotations

import json
import random
import secrets
import signal
import sys
import threading
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import pgqpy
from pgqpy.install import install
from tests.spark.feed import Feed
from tests.spark.harness_cluster import SessionProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer

COMMAND = (sys.executable, "-u", "-m", "pgqpy", "pipeline", "run", "--queue", "orders")
OPTIONS = ("--schema", "n INT", "--starting-offsets", "earliest", "--master", "local[2]")
KILLS = 3
BAD_EVERY = 10  # events


class Lake:
    """A folder, and the command that fills it."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder / "lake"
        self._environment = {"PGQPY_DSN": dsn, "SPARK_LOCAL_DIRS": str(folder / "scratch")}

    def start(self, *options: str) -> SessionProcess:
        """Start the command; always the same but for how it ends."""
        command = (*COMMAND, *OPTIONS, "--to", str(self.folder), *options)
        return SessionProcess(*command, env=self._environment)

    def fill(self) -> str:
        """Let it write what is there, and return what it said."""
        with closing(self.start("--once")) as process:
            assert process.wait() == 0, process.output()
            return process.output()

    def good(self) -> list[int]:
        """Return the numbers of the good records."""
        return sorted(self._read("n"))

    def bad(self) -> list[str]:
        """Return the data of the bad ones."""
        return sorted(self._read("ev_data", "_bad"))

    def _read(self, column: str, folder: str = "") -> list[Any]:
        lake = ds.dataset(self.folder / folder, format="parquet", partitioning="hive")
        return list(lake.to_table([column]).column(column).to_pylist())


@pytest.fixture
def lake(dsn: str, tmp_path: Path) -> Lake:
    return Lake(tmp_path, dsn)


def test_it_stops_in_order_and_goes_on_by_the_same_command(lake: Lake, feed: Feed) -> None:
    feed.insert(*data(range(1, 4)))
    with closing(lake.start("--every", "200ms")) as process:
        process.wait_for_output("events 3 ")
        feed.insert(*data(range(4, 6)))
        process.wait_for_output("events 2 ")
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.output()
        assert "5 events, 0 of them bad" in process.output()
    assert feed.standing("pipeline") == (last_tick(feed), [])
    feed.insert(*data([6]))
    assert "1 events, 0 of them bad" in lake.fill()
    assert lake.good() == list(range(1, 7))
    assert feed.standing("pipeline") == (last_tick(feed), [])


@pytest.mark.slow
def test_sigkill_at_any_moment_loses_and_doubles_nothing(lake: Lake, feed: Feed, dsn: str) -> None:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")  # noqa: T201  # shown where the test fails
    choose = random.Random(seed)
    with produced(dsn) as numbers:
        for _ in range(KILLS):
            with closing(lake.start("--every", "0s")) as process:
                process.wait_for_output("events [1-9]", times=choose.randint(1, 3))
                wanted = len(numbers) + choose.randint(0, 100)
                eventually(partial(reached, numbers, wanted))
                process.kill()
    feed.tick()
    lake.fill()
    assert lake.good() == [n for n in numbers if n % BAD_EVERY]
    assert lake.bad() == sorted(broken(n) for n in numbers if n % BAD_EVERY == 0)


@pytest.mark.slow
def test_it_waits_for_a_server_that_crashed(own_server: EmbeddedServer, tmp_path: Path) -> None:
    lake = Lake(tmp_path, own_server.dsn())
    with pgqpy.connect(own_server.dsn()) as client:
        install(client.connection)
        Feed(client, own_server.dsn()).insert(*data([1]))
    with closing(lake.start("--every", "200ms")) as process:
        process.wait_for_output("events 1 ")
        own_server.stop("immediate")
        process.wait_for_output("connection lost")
        own_server.start()
        with pgqpy.connect(own_server.dsn()) as client:
            client.insert_event("orders", "test", *data([2]))
            client.tick_queue("orders")
        process.wait_for_output("events 1 ", times=2)
        process.popen.send_signal(signal.SIGINT)
        assert process.wait() == 0, process.output()
    assert lake.good() == [1, 2]


def data(numbers: Any) -> list[str]:
    return [json.dumps({"n": n}) for n in numbers]


def reached(numbers: list[int], wanted: int) -> bool:
    return len(numbers) >= wanted


def broken(number: int) -> str:
    return f"{number} is no object"


def last_tick(feed: Feed) -> int:
    (info,) = feed.client.get_queue_info(feed.queue)
    assert info.last_tick_id is not None
    return info.last_tick_id


@contextmanager
def produced(dsn: str) -> Iterator[list[int]]:
    """Insert events, some of them bad, and tick, as long as the block lasts; yield what was."""
    numbers: list[int] = []
    stop = threading.Event()

    def insert() -> None:
        with pgqpy.connect(dsn) as client:
            while not stop.wait(0.01):
                n = len(numbers) + 1
                text = data([n])[0] if n % BAD_EVERY else broken(n)
                client.insert_event("orders", "test", text)
                client.tick_queue("orders")
                numbers.append(n)

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield numbers
    finally:
        stop.set()
        thread.join()
