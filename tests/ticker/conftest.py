"""Fixtures: daemons, and the loop's statements on the test's database."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.ticker import session, tick
from pgqpy.ticker.loop import TICK_SETTINGS
from pgqpy.ticker.session import Sessions
from pgqpy.ticker.statements import Statements
from tests.ticker.harness import NAMES, Daemon, DaemonProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pgqpy
    from tests.support.processes import PythonProcess


@pytest.fixture
def start() -> Iterator[Callable[..., Daemon]]:
    """Start a daemon in threads: `start(dsn, other_dsn, retry_period=0.1)`; stopped at the end."""
    with ExitStack() as stack:

        def starter(*dsns: str, **settings: Any) -> Daemon:
            daemon = Daemon(*dsns, **settings)
            stack.callback(daemon.stop)
            return daemon

        yield starter


@pytest.fixture
def start_process(spawn: Callable[..., PythonProcess]) -> Callable[..., DaemonProcess]:
    """Start a daemon as a process: `start_process(dsn, retry_period=0.1, env={…})`."""
    return lambda *dsns, **settings: DaemonProcess(spawn, *dsns, **settings)


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    """The sessions of a daemon, closed at the end."""
    sessions = Sessions()
    yield sessions
    sessions.close()


@pytest.fixture
def queue(client: pgqpy.Client, new_orders: str) -> str:
    """A queue with one consumer, `billing`."""
    return new_orders


@pytest.fixture
def tick_client(dsn: str) -> Iterator[pgqpy.Client]:
    """A client with a session like the loop's."""
    with session.open_client(dsn, TICK_SETTINGS) as client:
        yield client


@pytest.fixture
def statements(tick_client: pgqpy.Client) -> Statements:
    """The loop's statements, on that session."""
    return Statements(tick_client)


@pytest.fixture
def queues(client: pgqpy.Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fourteen queues in ranges of three; no poll includes all queues."""
    monkeypatch.setattr(tick, "RANGE_SIZE", 3)
    monkeypatch.setattr(tick, "FEW_QUEUES", 2)
    for name in NAMES:
        client.create_queue(name)
    return NAMES
