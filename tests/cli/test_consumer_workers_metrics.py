"""`pgqpy consumer run --workers N --metrics-port P`: a port for each process."""

from __future__ import annotations

import signal
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Module, Run, Start, failed_with
from tests.cli.test_consumer_workers import BILLING
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pgqpy

CONNECTED = 'pgq_consumer_connected{consumer="billing",queue="orders"} 1.0'


@pytest.fixture
def ports() -> Iterator[list[socket.socket]]:
    """Two sockets that are bound to ports in a row."""
    with socket.socket() as first, socket.socket() as second:
        eventually(lambda: are_bound(first, second))
        yield [first, second]


def are_bound(first: socket.socket, second: socket.socket) -> bool:
    """Bind the sockets; say whether the second port was free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    try:
        second.bind(("127.0.0.1", port + 1))
    except OSError:
        return False
    first.bind(("127.0.0.1", port))
    return True


def page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return str(answer.read().decode())
    except urllib.error.URLError:
        return ""


def test_each_worker_process_serves_its_metrics_on_the_next_port(
    module: Module, start: Start, client: pgqpy.Client, ports: list[socket.socket]
) -> None:
    client.create_queue("orders")
    first, second = (each.getsockname()[1] for each in ports)
    for each in ports:
        each.close()
    dsn = client.connection.info.dsn
    options = ("--workers", "2", "--metrics-port", str(first), "--dsn", dsn)
    process = start(module(BILLING) + ":Billing", *options)
    eventually(lambda: all(CONNECTED in page(port) for port in (first, second)))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_a_port_that_is_taken_is_reported_once(
    module: Module, run: Run, client: pgqpy.Client, ports: list[socket.socket]
) -> None:
    client.create_queue("orders")
    first, second = (each.getsockname()[1] for each in ports)
    ports[0].close()
    ports[1].listen()
    options = ("--workers", "2", "--metrics-port", str(first))
    failed = run("consumer", "run", f"{module(BILLING)}:Billing", *options)
    assert failed_with(failed, 1, f"cannot listen on 127.0.0.1:{second}")
