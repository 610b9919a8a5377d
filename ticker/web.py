"""The HTTP server of /healthz and /metrics, on one thread, with limits for clients."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from http import HTTPStatus
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, StreamReader, StreamWriter, Task
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

CLIENT_TIMEOUT = 5.0  # seconds for a whole request and its response
MAX_CLIENTS = 64  # at once; another one replaces the oldest
MAX_REQUEST = 16 * 1024  # bytes, with headers


class CannotListen(OSError):
    """The address for /healthz and /metrics is not available."""


class Response(NamedTuple):
    """An HTTP response."""

    status: int
    content_type: str
    body: bytes


class Web:
    """The HTTP server: start, stop. Stopping twice or before starting is safe.

    With a thread for each client, as in http.server, slow clients could take any number of threads.
    Here a client takes a socket and a buffer, and a new client replaces a slow one.
    """

    def __init__(
        self,
        host: str,
        port: int | None,
        *,
        health: Callable[[], tuple[int, dict[str, Any]]],
        registry: CollectorRegistry,
    ) -> None:
        """Prepare to listen on host and port (None: no server, 0: any free port)."""
        self._host = host
        self._port = port
        self._health = health
        self._registry = registry
        self._loop: AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._clients: dict[Task[Any], None] = {}  # the oldest first

    def start(self) -> str | None:
        """Listen and return host:port; return None without a port.

        Raises CannotListen if the address is not available.
        """
        if self._port is None:
            return None
        try:
            listening = listen(self._host, self._port)
        except OSError as exc:
            raise CannotListen(exc.errno, exc.strerror or str(exc)) from exc
        where = address(*listening.getsockname()[:2])
        loop = self._loop = asyncio.new_event_loop()
        Thread(target=self._run, args=(loop, listening), name="http", daemon=True).start()
        return where

    def stop(self) -> None:
        """Stop listening, and close the connections."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._stopped.set)

    def _run(self, loop: AbstractEventLoop, listening: socket.socket) -> None:
        try:
            loop.run_until_complete(self._serve(listening))
        finally:
            loop.close()

    async def _serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._client, sock=listening, limit=MAX_REQUEST)
        await self._stopped.wait()
        server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _client(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:  # never: a coroutine runs in a task
            return
        if len(self._clients) >= MAX_CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.cancel()
        self._clients[task] = None
        try:
            # TimeoutError is asyncio's own, and no OSError, before Python 3.11.
            with suppress(OSError, EOFError, asyncio.TimeoutError):
                await asyncio.wait_for(self._respond(reader, writer), CLIENT_TIMEOUT)
        finally:
            self._clients.pop(task, None)
            writer.transport.abort()

    async def _respond(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Read one request, send the response, and close."""
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            method, response = b"GET", plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            method, response = self._parse(request.partition(b"\r\n")[0])
        writer.write(head(response) + (response.body if method != b"HEAD" else b""))
        writer.close()
        await writer.wait_closed()

    def _parse(self, line: bytes) -> tuple[bytes, Response]:
        """Return the method, and the response to a request with this first line."""
        match line.split(b" "):
            case [(b"GET" | b"HEAD") as method, target, version] if version.startswith(b"HTTP/1."):
                return method, self._page(target.partition(b"?")[0])
            case [_, _, version] if version.startswith(b"HTTP/1."):
                return b"", plain(HTTPStatus.METHOD_NOT_ALLOWED)
        return b"", plain(HTTPStatus.BAD_REQUEST)

    def _page(self, path: bytes) -> Response:
        if path == b"/healthz":
            status, body = self._health()
            return Response(status, "application/json", json.dumps(body).encode() + b"\n")
        if path == b"/metrics":
            return Response(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry))
        return plain(HTTPStatus.NOT_FOUND, "there are /healthz and /metrics")


def plain(status: HTTPStatus, text: str = "") -> Response:
    """Return a response in plain text."""
    return Response(status, "text/plain; charset=utf-8", f"{text or status.phrase}\n".encode())


def head(response: Response) -> bytes:
    """Return the status line and the headers, up to the body."""
    lines = (
        f"HTTP/1.1 {response.status:d} {HTTPStatus(response.status).phrase}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address, by IPv4 or IPv6."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, where = found[0]
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server(where, family=family, dualstack_ipv6=both, backlog=MAX_CLIENTS)


def address(host: Any, port: int) -> str:
    """Return host:port as it stands in a URL."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
