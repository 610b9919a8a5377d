"""A ticker process with its log, health and metrics."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.processes import PythonProcess

HTTP_TIMEOUT = 10  # seconds
NAMES = [f"q{number:02}" for number in range(1, 15)]  # more queues than a poll or step includes


class Daemon:
    """`pgqpy ticker run` with JSON logs and an HTTP port of its own."""

    def __init__(self, spawn: Callable[..., PythonProcess], *dsns: str, **env: str) -> None:
        arguments = [word for dsn in dsns for word in ("--dsn", dsn)]
        options = ("--log-format", "json", "--http-port", "0")
        self.process = spawn("-m", "pgqpy", "ticker", "run", *options, *arguments, env=env)

    def log(self) -> list[dict[str, Any]]:
        lines = self.process.output().splitlines()
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

    def stop(self) -> int:
        return self.process.terminate()
