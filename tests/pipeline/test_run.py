"""`pgqpy pipeline run` as a process: stopped, killed, and without its server for a while."""

from __future__ import annotations

import json
import random
import secrets
import socket
import struct
import sys
import threading
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import psutil
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

import pgqpy
from tests.consumers.harness import installed
from tests.spark.feed import as_uri
from tests.spark.harness_cluster import START_TIMEOUT, SessionProcess
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pgqpy.testing import EmbeddedServer

PGQPY = str(Path(sys.executable).with_name("pgqpy"))
COMMAND = (PGQPY, "pipeline", "run", "--queue", "orders")
OPTIONS = ("--schema", "n INT", "--starting-offsets", "earliest", "--master", "local[2]")
KILLS = 2  # of each table
BAD_EVERY = 10  # events
RPC_REQUEST = 3  # a kind of Spark's messages between its processes
CONFIGURED = {
    "spark.redaction.regex": "shoe",
    "spark.sql.redaction.options.regex": "hat",
    "spark.shoe": "laces",
}
PAGES = ("environment", "sql?planDescription=true", "jobs", "stages?details=true", "allexecutors")


class Lake:
    """A folder, and the command that fills it."""

    options: tuple[str, ...] = ()

    def __init__(self, folder: Path, dsn: str, submit: Mapping[str, str] | None = None) -> None:
        self.folder = folder / "lake"
        self._environment = {
            "PGQPY_DSN": dsn,
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        }
        self._cwd = folder / "cwd"
        self._cwd.mkdir(exist_ok=True)
        if sys.version_info >= (3, 11):  # else Spark's Python processes would import it
            (self._cwd / "pyspark.py").write_text("raise SystemExit('of the working directory')")
        if submit:
            words = " ".join(f"--conf {name}={value}" for name, value in submit.items())
            self._environment["PYSPARK_SUBMIT_ARGS"] = f"{words} pyspark-shell"

    def start(self, *options: str) -> SessionProcess:
        """Start the command; always the same but for how it ends."""
        command = (*COMMAND, *OPTIONS, *self.options, "--to", str(self.folder), *options)
        return SessionProcess(*command, env=self._environment, cwd=self._cwd)

    def good(self) -> list[int]:
        """Return the numbers of the good records."""
        return sorted(self._read("n"))

    def bad(self) -> list[str]:
        """Return the data of the bad ones."""
        return sorted(self._read("ev_data", "_bad"))

    def _read(self, column: str, folder: str = "") -> list[Any]:
        lake = ds.dataset(self.folder / folder, format="parquet", partitioning="hive")
        return list(lake.to_table([column]).column(column).to_pylist())


class Table(Lake):
    """A table in a folder, and the command that fills it."""

    def __init__(self, folder: Path, dsn: str, kind: str) -> None:
        super().__init__(folder, dsn)
        self.options = ("--format", kind)

    def good(self) -> list[int]:
        """Return the numbers of the good records."""
        if self.options[1] == "delta":
            found = DeltaTable(str(self.folder)).to_pyarrow_table()
        else:
            catalog = SqlCatalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
            found = catalog.load_table(("queues", "orders")).scan().to_arrow()
        return sorted(found.column("n").to_pylist())


def listening(process: SessionProcess) -> list[Any]:
    """Return the addresses on which the processes of a pipeline listen."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found += [each.laddr for each in child.net_connections() if each.status == "LISTEN"]
    return found


def is_refused(address: Any) -> bool:
    """Ask for what holds a task, as an executor does; say whether a password is asked for."""
    words = [b"x", b"driver", b"broadcast_0_piece0"]
    texts = [struct.pack(">i", len(word)) + word for word in words]
    body = b"\0" + texts[0] + texts[1] + struct.pack(">i", 1) + texts[2]
    head = struct.pack(">qi", 1, len(body))
    with suppress(OSError), socket.create_connection(address, timeout=1) as connection:
        connection.sendall(struct.pack(">qb", 9 + len(head + body), RPC_REQUEST) + head + body)
        return b"Expected SaslMessage" in connection.recv(1000)
    return False


@pytest.mark.slow
def test_sigkill_and_a_crash_of_the_server_lose_and_double_nothing_and_no_password_is_shown(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    dsn = as_uri(own_server.dsn(), "open sesame")
    secret = dsn.partition("@")[0].rpartition(":")[2]
    logs, port = tmp_path / "logs", free_port()
    logs.mkdir()
    with pgqpy.connect(installed(own_server)) as client:
        client.create_queue("orders")
    numbers: list[int] = []
    kill_at_random(Lake(tmp_path, dsn), own_server.dsn(), numbers)
    lake = Lake(tmp_path, dsn, submit={**CONFIGURED, **told(logs, port)})
    with closing(lake.start("--every", "200ms")) as process:
        process.wait_for_match(f"tick {last_tick(own_server)} ")
        shown, pages = arguments(process), web_pages(port)
        ports = listening(process)
        eventually(lambda: any(map(is_refused, ports)))
        crash(own_server, process, numbers)
        assert process.terminate(START_TIMEOUT) == 0, process.output()
        output = process.output()
    assert lake.good() == [n for n in numbers if is_good(n)]
    assert lake.bad() == sorted(text_of(n) for n in numbers if not is_good(n))
    with pgqpy.connect(own_server.dsn()) as client:
        (info,) = client.get_consumer_info("orders", "pipeline")
    assert info.pending_events == 0
    assert {each.ip.removeprefix("::ffff:") for each in ports} == {"127.0.0.1"}
    assert any("SparkSubmit" in line for line in shown)
    assert [line for line in shown if secret in line] == []
    assert "laces" not in pages
    assert '"spark.shoe"' in pages
    logged = "".join(path.read_text() for path in logs.rglob("*") if path.is_file())
    kept = "".join(path.read_text() for path in lake.folder.rglob("_checkpoint/*/[0-9]*"))
    for text in (pages, logged, kept, output):
        assert text
        assert secret not in text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_has_each_event_once_whatever_was_killed(
    own_server: EmbeddedServer, tmp_path: Path, kind: str
) -> None:
    with pgqpy.connect(installed(own_server)) as client:
        client.create_queue("orders")
    lake = Table(tmp_path, own_server.dsn(), kind)
    numbers: list[int] = []
    for _ in range(KILLS):
        kill_at_random(lake, own_server.dsn(), numbers)
    with closing(lake.start("--every", "200ms")) as process:
        process.wait_for_match(f"tick {last_tick(own_server)} ")
        crash(own_server, process, numbers)
        assert process.terminate(START_TIMEOUT) == 0, process.output()
    assert lake.good() == [n for n in numbers if is_good(n)]
    assert lake.bad() == sorted(text_of(n) for n in numbers if not is_good(n))


def crash(server: EmbeddedServer, process: SessionProcess, numbers: list[int]) -> None:
    """Let the server crash and come back with one more event, which the pipeline reads."""
    server.stop("immediate")
    process.wait_for_match("connection lost")
    server.start()
    with pgqpy.connect(server.dsn()) as client:
        numbers.append(len(numbers) + 1)
        client.insert_event("orders", "test", text_of(numbers[-1]))
        client.tick_queue("orders")
    process.wait_for_match(f"tick {last_tick(server)} ")


def kill_at_random(lake: Lake, dsn: str, numbers: list[int]) -> None:
    """Kill the pipeline at any moment under load; add the numbers of the events."""
    seed = secrets.randbits(32)
    print(f"seed: {seed}")  # noqa: T201  # shown where the test fails
    choose = random.Random(seed)
    with produced(dsn, numbers), closing(lake.start("--every", "0s")) as process:
        process.wait_for_match("events [1-9]", times=choose.randint(1, 3))
        wanted = len(numbers) + choose.randint(0, 100)
        eventually(lambda: len(numbers) >= wanted)
        process.kill()


def last_tick(server: EmbeddedServer) -> int | None:
    with pgqpy.connect(server.dsn()) as client:
        (info,) = client.get_queue_info("orders")
    return info.last_tick_id


def told(logs: Path, port: int) -> dict[str, str]:
    """Return the settings by which Spark tells of itself."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def arguments(process: SessionProcess) -> list[str]:
    """Return the command lines of all its processes."""
    found = []
    for member in process.members():
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            found.append(" ".join(member.cmdline()))
    return found


def web_pages(port: int) -> str:
    """Return what Spark's web interface tells of the application."""
    place = f"http://127.0.0.1:{port}/api/v1/applications"
    with urlopen(place) as answer:
        (application,) = json.load(answer)
    texts = []
    for page in PAGES:
        with urlopen(f"{place}/{application['id']}/{page}") as answer:
            texts.append(answer.read().decode())
    return "\n".join(texts)


def is_good(number: int) -> bool:
    return number % BAD_EVERY > 0


def text_of(number: int) -> str:
    return json.dumps({"n": number}) if is_good(number) else f"{number} is no object"


@contextmanager
def produced(dsn: str, numbers: list[int]) -> Iterator[None]:
    """Insert events, some of them bad, and tick, as long as the block lasts; add their numbers."""
    stop = threading.Event()

    def insert() -> None:
        with pgqpy.connect(dsn) as client:
            while not stop.wait(0.01):
                n = len(numbers) + 1
                client.insert_event("orders", "test", text_of(n))
                client.tick_queue("orders")
                numbers.append(n)

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
