"""Fixtures: a queue ticked by hand, consumers of both kinds, spans."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from pgqpy.consumers import _async, _sync, waiting
from pgqpy.otel import trace_client
from tests.consumers.harness import NOTE, Maker, Queue
from tests.support.gates import shut_gate
from tests.support.spans import Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from pgqpy.records import Event
    from tests.support.gates import Gate


@pytest.fixture
def queue(client: pgqpy.Client, new_orders: str) -> Queue:
    """A queue with a consumer registered."""
    return Queue(client, made=True)


@pytest.fixture(params=["threads", "asyncio"])
def make(request: pytest.FixtureRequest, dsn: str) -> Iterator[Maker]:
    """Make consumers: each test runs with Consumer and with AsyncConsumer."""
    maker = Maker(dsn, asynchronous=request.param == "asyncio")
    yield maker
    maker.close()


@pytest.fixture
def make_sync(dsn: str) -> Iterator[Maker]:
    """Make consumers of threads only, for handlers that each test writes down."""
    maker = Maker(dsn, asynchronous=False)
    yield maker
    maker.close()


@pytest.fixture(autouse=True)
def polls(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let consumers poll often, and return a function that sets the seconds between two polls."""

    def every(seconds: float) -> None:
        monkeypatch.setattr(waiting, "POLL_INTERVAL", seconds)

    every(0.05)
    return every


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the consumers say, information too."""
    caplog.set_level(logging.INFO, "pgqpy.consumers")
    return caplog


@pytest.fixture(params=["threads", "asyncio"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    """Whether consumers are made for asyncio."""
    return bool(request.param == "asyncio")


@pytest.fixture
def effects(
    queue: Queue, connect: Callable[..., psycopg.Connection[Any]]
) -> Callable[[], list[str]]:
    """A table for effects, and a function that reads it."""
    connection = connect()
    connection.execute("create table effect (no serial, data text)")

    def read() -> list[str]:
        return [row[0] for row in connection.execute("select data from effect order by no")]

    return read


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a second process at once: no other one is about to end."""
    for module in (_async.lock, _sync.lock):
        monkeypatch.setattr(module, "STANDBY_AFTER", 0.0)


@pytest.fixture
def gate(connect: Callable[..., psycopg.Connection[Any]]) -> Iterator[Gate]:
    """A gate that handlers wait at; it is shut."""
    with shut_gate(connect()) as gate:
        yield gate


@pytest.fixture
def waiting_handler(
    gate: Gate, effects: object, connect: Callable[..., psycopg.Connection[Any]]
) -> dict[bool, Callable[..., Any]]:
    """Handlers that wait at the gate and note the event: whether transactional, and the handler."""

    def transactional(event: Event) -> Iterator[tuple[str, list[str] | None]]:
        yield gate.wait_sql, None
        yield NOTE, [event.data or ""]

    def plain(event: Event) -> None:
        with connect() as other:
            other.execute(gate.wait_sql.encode())
            other.execute(NOTE.encode(), [event.data])

    return {True: transactional, False: plain}


@pytest.fixture
def spans() -> Spans:
    """The spans that a test makes."""
    return Spans()


@pytest.fixture
def producer(dsn: str, queue: Queue, spans: Spans) -> Iterator[pgqpy.Client]:
    """A client that traces its inserts."""
    with pgqpy.connect(dsn) as client:
        yield trace_client(client, tracer_provider=spans.provider)
