"""A daemon with its log, health and metrics: in threads of the test, or as a process."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from contextlib import redirect_stderr
from threading import Event
from typing import TYPE_CHECKING, Any

from pgqpy.ticker import Ticker, logs
from pgqpy.ticker.logs import Report
from pgqpy.ticker.loop import Mover
from pgqpy.ticker.metrics import TickerMetrics
from pgqpy.ticker.periodic import duties_of
from pgqpy.ticker.session import Database, Sessions
from pgqpy.ticker.settings import TickerSettings
from pgqpy.ticker.web import Health
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from pgqpy import Client
    from tests.support.processes import PythonProcess

HTTP_TIMEOUT = 10  # seconds
NAMES = [f"q{number:02}" for number in range(1, 15)]  # more queues than a poll or step includes


def database_of(
    dsn: str,
    sessions: Sessions,
    *,
    health: Health | None = None,
    report: Report | None = None,
    **settings: Any,
) -> Database:
    """Make what the duties of an active daemon share."""
    chosen = TickerSettings(**settings)
    report = report or Report("shop", logs.make_logger(chosen), TickerMetrics())
    health = health or Health("shop", role="active")
    return Database(dsn, chosen, health, report, sessions, Event())


def duty_of(database: Database, name: str) -> Any:
    """Return the duty of this name."""
    duties = (*duties_of(database), Mover(database).duty)
    return next(duty for duty in duties if duty.name == name)


def extra_maint(connection: psycopg.Connection[Any], **functions: str) -> None:
    """Let maintenance call functions, made from their SQL, for each queue."""
    for name, body in functions.items():
        header = f"create function public.{name}(text) returns int language sql as"
        connection.execute(f"{header} $$ {body} $$".encode())
    names = [f"public.{name}" for name in functions]
    connection.execute("update pgq.queue set queue_extra_maint = %s", [names])


def delivered(client: Client) -> list[str | None]:
    """Take billing's next batch of orders: the payloads of its events, none without a batch."""
    batch = client.next_batch("orders", "billing")
    if batch is None:
        return []
    found = [event.data for event in client.get_batch_events(batch)]
    client.finish_batch(batch)
    return found


class Watched:
    """What both kinds of daemons show: a log in JSON, and HTTP on a port of their own."""

    def output(self) -> str:
        """Return what it has printed so far."""
        raise NotImplementedError

    def log(self) -> list[dict[str, Any]]:
        lines = self.output().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def said(self, event: str, **fields: Any) -> dict[str, Any] | None:
        """Return the first log line with this event and these fields."""
        for line in self.log():
            if line["event"] == event and fields.items() <= line.items():
                return line
        return None

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        found = eventually(lambda: self.said(event, **fields))
        assert found is not None
        return found

    def get(self, path: str) -> tuple[int, str]:
        address = self.wait_for("started")["http"]
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=HTTP_TIMEOUT) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def healthz(self) -> tuple[int, dict[str, Any]]:
        status, body = self.get("/healthz")
        return status, json.loads(body)

    def metrics(self) -> str:
        return self.get("/metrics")[1]


class Daemon(Watched):
    """A `Ticker` in threads of this process, which starts a second sooner than a process."""

    def __init__(self, *dsns: str, **settings: Any) -> None:
        self._printed = io.StringIO()
        with redirect_stderr(self._printed):  # the logger keeps it
            self._ticker = Ticker(
                TickerSettings(dsns=dsns, log_format="json", http_port=0, **settings)
            )
        self._ticker.start()

    def output(self) -> str:
        """Return what it has printed so far."""
        return self._printed.getvalue()

    def stop(self) -> None:
        """Stop it; stopping twice is safe."""
        self._ticker.stop()


class DaemonProcess(Watched):
    """`pgqpy ticker run`, to send signals to and to kill."""

    def __init__(
        self,
        spawn: Callable[..., PythonProcess],
        *dsns: str,
        env: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        arguments = [word for dsn in dsns for word in ("--dsn", dsn)]
        options = ("--log-format", "json", "--http-port", "0")
        named = {f"PGQPY_{name.upper()}": str(value) for name, value in settings.items()}
        command = ("-m", "pgqpy", "ticker", "run", *options, *arguments)
        self.process = spawn(*command, env={**named, **(env or {})})

    def output(self) -> str:
        """Return what it has printed so far."""
        return self.process.output()

    def stop(self) -> int:
        """Stop it by SIGTERM and return its exit code."""
        return self.process.terminate()
