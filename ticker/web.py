"""/healthz and /metrics, by the standard library's HTTP server."""

from __future__ import annotations

import json
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

STOP_LOOK = 0.2  # seconds until a request to stop is seen
REQUEST_TIMEOUT = 10  # seconds: a client that says nothing does not keep its thread


class CannotListen(OSError):
    """The address for /healthz and /metrics cannot be had."""


class Web:
    """The HTTP server: start, stop. Stopping twice or before starting is safe."""

    def __init__(
        self,
        host: str,
        port: int | None,
        *,
        health: Callable[[], tuple[int, dict[str, Any]]],
        registry: CollectorRegistry,
    ) -> None:
        """Take where to listen (port None: nowhere, 0: any port) and what to answer with."""
        self._host = host
        self._port = port
        self._health = health
        self._registry = registry
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> str | None:
        """Listen, and return host:port, None if there is no port.

        Raises CannotListen if the address cannot be had.
        """
        if self._port is None:
            return None
        answers: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": self._healthz,
            "/metrics": self._metrics,
        }
        try:
            server = self._server = Server((self._host, self._port), answers)
        except OSError as exc:
            raise CannotListen(exc.errno, exc.strerror or str(exc)) from exc
        Thread(target=server.serve_forever, args=(STOP_LOOK,), name="http", daemon=True).start()
        return address(*server.server_address[:2])

    def stop(self) -> None:
        """Listen no more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _healthz(self) -> tuple[int, str, bytes]:
        status, body = self._health()
        return status, "application/json", json.dumps(body).encode() + b"\n"

    def _metrics(self) -> tuple[int, str, bytes]:
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry)


class Server(ThreadingHTTPServer):
    """A server that answers from a table of paths."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        answers: dict[str, Callable[[], tuple[int, str, bytes]]],
    ) -> None:
        """Listen on the address, by IPv4 or IPv6 as the host says."""
        self.answers = answers
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__(address, Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about a client that hung up."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    timeout = REQUEST_TIMEOUT

    def do_GET(self) -> None:  # the name http.server looks for
        """Answer /healthz or /metrics."""
        answer = self.server.answers.get(self.path.partition("?")[0])
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND, "there are /healthz and /metrics")
            return
        status, content_type, body = answer()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815  # as do_GET

    def log_message(self, format: str, *args: Any) -> None:  # the base class's name
        """Log no line per request."""


def address(host: Any, port: int) -> str:
    """Return host:port as it stands in a URL."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
