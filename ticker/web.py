"""The HTTP server of /healthz and /metrics."""

from __future__ import annotations

import json
import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    HealthPage = Callable[[], tuple[int, dict[str, Any]]]  # the status, and the body for JSON

CLIENT_TIMEOUT = 5.0  # seconds that a client may keep a thread waiting
STOP_CHECK = 0.05  # seconds
BACKLOG = 64  # clients that wait to be accepted


class CannotListen(Exception):
    """The address for /healthz and /metrics is not available."""


class Web:
    """The HTTP server: start, stop. Stopping twice or before starting is safe."""

    def __init__(
        self, host: str, port: int | None, *, health: HealthPage, registry: CollectorRegistry
    ) -> None:
        """Prepare to listen on host and port (None: no server, 0: any free port)."""
        self._host = host
        self._port = port
        self._health = health
        self._registry = registry
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> str | None:
        """Listen and return host:port; return None without a port.

        Raises CannotListen if the address is not available.
        """
        if self._port is None:
            return None
        listening = listen(self._host, self._port)
        where = listening.getsockname()[:2]
        self._server = ThreadingHTTPServer(where, self._handler(), bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening
        serve = self._server.serve_forever
        Thread(target=serve, args=(STOP_CHECK,), name="http", daemon=True).start()
        return address(*where)

    def stop(self) -> None:
        """Stop listening; does not wait for clients."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.socket.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self._page

        class Handler(BaseHTTPRequestHandler):
            timeout = CLIENT_TIMEOUT
            server_version, sys_version = "pgqpy", ""

            def do_GET(self) -> None:  # http.server's name
                status, kind, body = page(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815  # http.server's name

            def log_message(self, *_: Any) -> None:
                """Log nothing: probes come every few seconds."""

            def handle(self) -> None:
                """Answer one client. One that has gone is no error."""
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True

        return Handler

    def _page(self, path: str) -> tuple[int, str, bytes]:
        """Return the status, the content type and the body."""
        if path == "/healthz":
            status, body = self._health()
            return status, "application/json", json.dumps(body).encode() + b"\n"
        if path == "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        return HTTPStatus.NOT_FOUND, "text/plain", b"there are /healthz and /metrics\n"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address, by IPv4 or IPv6; raises CannotListen."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, where = found[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(where, family=family, dualstack_ipv6=both, backlog=BACKLOG)
    except UnicodeError as exc:
        raise CannotListen(f"cannot listen on {printable(host)!r}: that is no host name") from exc
    except OSError as exc:
        shown = printable(address(host, port))
        raise CannotListen(f"cannot listen on {shown}: {exc.strerror or exc}") from exc


def address(host: Any, port: int) -> str:
    """Return host:port as it stands in a URL."""
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
