"""The HTTP server of /healthz and /metrics, and the state of each database for /healthz."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    HealthPage = Callable[[], tuple[int, dict[str, Any]]]  # the status, and the body for JSON


FAILED_RUNS = 2  # in a row make a duty a failing one: a single run may fail behind a lock
SLOW_DUTY = 300.0  # seconds; a duty that never ends would stop rotation or retries unnoticed

Role = Literal["connecting", "standby", "active", "refused"]


@dataclass(slots=True)
class Health:
    """The state of one database.

    The thread of its loop writes, other threads read; each field is read and written atomically.
    The duties write `running`; they and the loop write `failed_runs`, each its own key. A change of
    role clears it.
    """

    database: str
    role: Role = "connecting"
    reason: str | None = None
    # The last successful poll, and the last one without a failing queue; at first the start.
    polled_at: float = field(default_factory=time.monotonic)
    completed_at: float = field(default_factory=time.monotonic)
    alive_at: float = field(default_factory=time.monotonic)  # the last round of the loop
    failing: tuple[str, ...] = ()
    running: dict[str, float] = field(default_factory=dict)  # when each running duty began
    failed_runs: dict[str, int] = field(default_factory=dict)  # how many in a row, by duty

    def polled(self, now: float) -> None:
        """Record a successful poll: changed queues were ticked, or (standby) the lock was tried."""
        self.polled_at = self.alive_at = now
        if not self.failing:
            self.completed_at = now

    def change(self, role: Role, reason: str | None = None) -> None:
        """Change the role; `reason` says why the database is not served."""
        self.role, self.reason = role, reason
        if role != "active":
            self.failing = ()
            self.failed_runs.clear()
        self.alive_at = time.monotonic()

    def poll_age(self, now: float) -> float:
        """Return the seconds since the last successful poll, or since the start."""
        return max(0.0, now - self.polled_at)

    def complete_poll_age(self, now: float) -> float:
        """Return the seconds since the last poll that ticked all changed queues."""
        return max(0.0, now - self.completed_at)

    def duty_ran(self, duty: str, *, failed: bool) -> None:
        """Record a run of a duty."""
        if failed:
            self.failed_runs[duty] = self.failed_runs.get(duty, 0) + 1
        else:
            self.failed_runs.pop(duty, None)

    def failing_duties(self) -> list[str]:
        """Return the duties whose last runs failed, sorted."""
        return sorted(d for d, runs in self.failed_runs.copy().items() if runs >= FAILED_RUNS)

    def slow_duties(self, now: float) -> list[str]:
        """Return the duties that have been running for longer than SLOW_DUTY."""
        return [duty for duty, since in self.running.copy().items() if now - since > SLOW_DUTY]

    def report(self, now: float, limit: float) -> dict[str, Any]:
        """Return this database's part of /healthz; a standby is served by the active daemon."""
        healthy = self.role in ("active", "standby") and self.poll_age(now) < limit
        no_answer = f"no answer from the database for {self.poll_age(now):.1f} s"
        return {
            "healthy": healthy,
            "role": self.role,
            "last_poll_age_seconds": round(self.poll_age(now), 3),
            "failing_queues": list(self.failing),
            "failing_duties": self.failing_duties(),
            "slow_duties": self.slow_duties(now),
            "reason": self.reason or (None if healthy else no_answer),
        }


def overall(states: list[Health], now: float, limit: float) -> tuple[int, dict[str, Any]]:
    """Return the HTTP status and body of /healthz: 200 only if every database is served.

    Failing queues, and duties that fail or do not end, make the status `degraded`, still with 200:
    a restart of the daemon would not help them, and would interrupt the others.
    """
    databases = {state.database: state.report(now, limit) for state in states}
    healthy = all(part["healthy"] for part in databases.values())
    degraded = any(
        part[what]
        for part in databases.values()
        for what in ("failing_queues", "failing_duties", "slow_duties")
    )
    status = "unhealthy" if not healthy else "degraded" if degraded else "ok"
    return 200 if healthy else 503, {"status": status, "databases": databases}


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
