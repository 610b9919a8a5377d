"""A daemon with its log, health and metrics: in threads of the test, or as a process."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, Any

from pgqpy.ticker import Ticker
from pgqpy.ticker.settings import TickerSettings
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.processes import PythonProcess

HTTP_TIMEOUT = 10  # seconds
NAMES = [f"q{number:02}" for number in range(1, 15)]  # more queues than a poll or step includes


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
