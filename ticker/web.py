"""The HTTP server of /healthz and /metrics, on one thread, with limits for clients."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from pgqpy.texts import printable

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    HealthPage = Callable[[], tuple[int, dict[str, Any]]]  # the status, and the body for JSON

CLIENT_TIMEOUT = 5.0  # seconds for a whole request and its response
MAX_CLIENTS = 64  # at once; another one replaces the oldest
MAX_REQUEST = 16 * 1024  # bytes, with headers


class CannotListen(Exception):
    """The address for /healthz and /metrics is not available."""


class Web:
    """The HTTP server: start, stop. Stopping twice or before starting is safe.

    With a thread for each client, as in http.server, slow clients could take any number of threads.
    Here a client takes a socket and a buffer, and a new client replaces a slow one.
    """

    def __init__(
        self, host: str, port: int | None, *, health: HealthPage, registry: CollectorRegistry
    ) -> None:
        """Prepare to listen on host and port (None: no server, 0: any free port)."""
        self._host = host
        self._port = port
        self._health = health
        self._registry = registry
        self._stopped: Future[None] = Future()
        self._clients: dict[StreamWriter, None] = {}  # the oldest first

    def start(self) -> str | None:
        """Listen and return host:port; return None without a port.

        Raises CannotListen if the address is not available.
        """
        if self._port is None:
            return None
        listening = listen(self._host, self._port)
        where = address(*listening.getsockname()[:2])
        Thread(target=asyncio.run, args=(self._serve(listening),), name="http", daemon=True).start()
        return where

    def stop(self) -> None:
        """Stop listening, and close the connections; does not wait for it."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def _serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._client, sock=listening, limit=MAX_REQUEST)
        await asyncio.wrap_future(self._stopped)
        server.close()  # asyncio.run cancels the clients

    async def _client(self, reader: StreamReader, writer: StreamWriter) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.transport.abort()
        self._clients[writer] = None
        try:
            # TimeoutError is asyncio's own, and no OSError, before Python 3.11.
            with suppress(OSError, EOFError, asyncio.TimeoutError):
                await asyncio.wait_for(self._respond(reader, writer), CLIENT_TIMEOUT)
        finally:
            self._clients.pop(writer, None)
            writer.transport.abort()

    async def _respond(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Read one request, send the response, and close."""
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        else:
            writer.write(self._answer(request.partition(b"\r\n")[0]))
        writer.close()
        await writer.wait_closed()

    def _answer(self, line: bytes) -> bytes:
        """Return the response to a request with this first line."""
        match line.split(b" "):
            case [(b"GET" | b"HEAD") as method, target, version] if version.startswith(b"HTTP/1."):
                page = self._page(target.partition(b"?")[0])
                return page if method == b"GET" else page[: page.index(b"\r\n\r\n") + 4]
            case [_, _, version] if version.startswith(b"HTTP/1."):
                return response(HTTPStatus.METHOD_NOT_ALLOWED)
        return response(HTTPStatus.BAD_REQUEST)

    def _page(self, path: bytes) -> bytes:
        if path == b"/healthz":
            status, body = self._health()
            return response(status, json.dumps(body).encode() + b"\n", "application/json")
        if path == b"/metrics":
            return response(HTTPStatus.OK, generate_latest(self._registry), CONTENT_TYPE_LATEST)
        return response(HTTPStatus.NOT_FOUND, b"there are /healthz and /metrics\n")


def response(status: int, body: bytes = b"", content_type: str = "text/plain") -> bytes:
    """Return an HTTP response; without a body it contains the status in words."""
    phrase = HTTPStatus(status).phrase
    body = body or f"{phrase}\n".encode()
    lines = (
        f"HTTP/1.1 {status:d} {phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address, by IPv4 or IPv6; raises CannotListen."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, where = found[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(where, family=family, dualstack_ipv6=both, backlog=MAX_CLIENTS)
    except UnicodeError as exc:
        raise CannotListen(f"cannot listen on {printable(host)!r}: that is no host name") from exc
    except OSError as exc:
        shown = printable(address(host, port))
        raise CannotListen(f"cannot listen on {shown}: {exc.strerror or exc}") from exc


def address(host: Any, port: int) -> str:
    """Return host:port as it stands in a URL."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
