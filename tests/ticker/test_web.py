"""The HTTP server with clients that are slow, silent or wrong."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, Gauge

from pgqpy.ticker import web
from tests.support.waiting import eventually

HEALTH = (200, {"status": "ok"})


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def server(registry):
    server = web.Web("127.0.0.1", 0, health=lambda: HEALTH, registry=registry)
    yield server
    server.stop()
    server.stop()
    eventually(lambda: not threads())


@pytest.fixture
def place(server):
    """A running server's host and port."""
    host, _, port = (server.start() or "").rpartition(":")
    return host, int(port)


@pytest.fixture
def dial(place):
    """Open a connection that says nothing by itself."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection(place, timeout=30))


def threads():
    return [each for each in threading.enumerate() if each.name == "http"]


def get(place, path="/healthz", method="GET"):
    connection = http.client.HTTPConnection(place[0], place[1], timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def said(client):
    """Return the rest of what a client gets, up to the end of its connection."""
    text = b""
    try:
        while part := client.recv(4096):
            text += part
    except ConnectionResetError:
        pass
    return text


def test_silent_clients_do_not_delay_others(place, dial):
    silent = [dial() for _ in range(32)]
    for client in silent[::2]:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a")
    assert get(place)[0] == 200


def test_client_that_never_reads_is_disconnected(monkeypatch, registry):
    size = 20_000_000  # bytes: more than the kernel keeps for both sides
    Gauge("big", "x" * size, registry=registry)
    monkeypatch.setattr(web, "CLIENT_TIMEOUT", 0.2)
    server = web.Web("127.0.0.1", 0, health=lambda: HEALTH, registry=registry)
    host, _, port = (server.start() or "").rpartition(":")
    before = threading.active_count()
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        client.recv(1)
        eventually(lambda: threading.active_count() <= before)
        assert len(said(client)) < size
    server.stop()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /healthz HTTP/1.1\r\n\r\n", b"501"),
        (b"GET /secrets HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /healthz?a=b HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_odd_requests_get_a_status(dial, request_, status):
    client = dial()
    client.sendall(request_)
    assert said(client).split(b" ")[1] == status


def test_head_has_no_body(place):
    assert get(place, method="HEAD") == (200, b"")
    assert get(place) == (200, b'{"status": "ok"}\n')


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("not\na host", r"cannot listen on not\na host:0: "),
        ("é..x", "cannot listen on 'é..x': that is no host name"),
    ],
)
def test_an_odd_host_is_told_in_one_line(host, told):
    with pytest.raises(web.CannotListen) as caught:
        web.listen(host, 0)
    assert str(caught.value).startswith(told)
    assert "\n" not in str(caught.value)
