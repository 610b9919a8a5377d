"""Runs that end in order while the database is away: none of them counts as a crash."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from pgqpy.client import connect_as_tool
from pgqpy.consumers.crash import RunEnd
from tests.consumers.harness import END, STATEMENTS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

TOKENS = "select pos_holder from pgq.current_position where pos_holder is not null"
SETTINGS: list[dict[str, Any]] = [
    {},
    {"concurrency": 4},
    {"transactional": True},
    {"shared": True},
]


class Outage:
    """Takes the database away from everybody but the sessions that a test has open."""

    def __init__(self, admin: psycopg.Connection[Any], database: str) -> None:
        self._admin = admin
        self._database = sql.Identifier(database)
        self.failures = 0  # of attempts to tell the end

    def begin(self) -> None:
        """Refuse new connections, and end the consumers' sessions."""
        self._allow("false")
        self._admin.execute(END)

    def end(self) -> None:
        """Let everybody connect again."""
        self._allow("true")

    def _allow(self, allowed: str) -> None:
        change = "alter database {} allow_connections {}"
        self._admin.execute(sql.SQL(change).format(self._database, sql.SQL(allowed)))


@pytest.fixture
def outage(server: Server, connection, monkeypatch) -> Iterator[Outage]:
    """An outage that begins when a test says so; it counts attempts that failed."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        outage = Outage(admin, connection.info.dbname)

        def counted(*args: Any, **kwargs: Any) -> Any:
            try:
                return connect_as_tool(*args, **kwargs)
            except Exception:
                outage.failures += 1
                raise

        monkeypatch.setattr("pgqpy.consumers.crash.connect_as_tool", counted)
        yield outage
        outage.end()


def handler(act):
    """Return a handler that acts."""
    return lambda _event: act() or STATEMENTS


@pytest.mark.parametrize(
    ("settings", "when"), [({}, "later"), *((each, "in the handler") for each in SETTINGS)]
)
def test_a_stop_while_the_database_is_away_is_told_when_it_is_back(
    queue, make, connection, outage, log, settings, when
):
    def act():
        outage.begin()
        if when == "in the handler":
            consumer.stop()

    consumer = make.consumer(handler(act), **settings)
    running = make.run(consumer)
    queue.insert("a")
    eventually(lambda: "lost its connection" in log.text)
    assert len(connection.execute(TOKENS).fetchall()) == 1
    consumer.stop()
    eventually(lambda: outage.failures)
    outage.end()
    running.join()
    assert connection.execute(TOKENS).fetchall() == []
    assert "could not tell" not in log.text
    make.start(handler(list), **settings)
    eventually(lambda: queue.pending() == 0)
    assert "crash" not in log.text


def test_an_exception_that_ends_run_while_the_database_is_away_is_told_too(
    queue, make, connection, outage
):
    def act():
        outage.begin()
        raise ValueError("not now")

    running = make.start(handler(act), on_error="stop")
    queue.insert("a")
    eventually(lambda: outage.failures)
    outage.end()
    with pytest.raises(ValueError, match="not now"):
        running.join()
    assert connection.execute(TOKENS).fetchall() == []


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_end_that_an_event_may_have_caused_is_not_told(queue, make, connection, error, lost):
    def act():
        if lost:
            connection.execute(END)
        raise error

    running = make.start(handler(act))
    queue.insert("a")
    with pytest.raises(type(error)):
        running.join()
    assert len(connection.execute(TOKENS).fetchall()) == 1


def test_a_run_that_cannot_tell_its_end_says_so(queue, make, connection, outage, log, monkeypatch):
    monkeypatch.setattr(RunEnd, "timeout", 0.5)  # seconds

    def act():
        outage.begin()
        consumer.stop()

    consumer = make.consumer(handler(act))
    running = make.run(consumer)
    queue.insert("a")
    running.join()
    assert log.text.count("stops, but could not tell the server (ConnectionFailed: ") == 1
    assert len(connection.execute(TOKENS).fetchall()) == 1


TELLING = """
import sys
from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.consumers.crash import RunEnd

RunEnd.timeout = 600
start = RunEnd.start

def noted_start(self):
    start(self)
    print("telling", flush=True)

RunEnd.start = noted_start

class Idle({base}):
    queue, name = "orders", "billing"

    {define} process_event(self, event):
        pass

{run}
"""
KINDS = {
    "sync": {"base": "Consumer", "define": "def", "run": "Idle(sys.argv[1]).run()"},
    "async": {
        "base": "AsyncConsumer",
        "define": "async def",
        "run": "import asyncio; asyncio.run(Idle(sys.argv[1]).run())",
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_signal_does_not_wait_for_the_database(
    queue, dsn, connection, spawn, outage, kind
):
    process = spawn("-c", TELLING.format(**KINDS[kind]), dsn)
    eventually(lambda: connection.execute(TOKENS).fetchall())
    outage.begin()
    process.signal(signal.SIGTERM)
    process.wait_for_output("telling")
    assert process.terminate() == -signal.SIGTERM
