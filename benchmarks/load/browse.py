"""The dashboard in a process of its own, and a browser without a screen: pages, forms, a viewer."""

from __future__ import annotations

import secrets
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from http.cookiejar import CookieJar
from pathlib import Path
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psutil

from benchmarks.figures import verify
from pgqpy.dashboard.access import make_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 60.0  # seconds for an answer
USER = "anna"
TOKEN = 'name="token" value="'  # noqa: S105  # how a page shows it
STARTED = "dashboard: "


class Browser:
    """Gets pages and sends forms, with the cookie of a login."""

    def __init__(self, url: str, password: str) -> None:
        """Log in."""
        self.url = url.rstrip("/")
        self._open = build_opener(HTTPCookieProcessor(CookieJar())).open
        self.post("/login", "/login", name=USER, password=password)
        verify("logged in", "Log out" in self.get("/"), wanted=True)

    def get(self, path: str) -> str:
        """Return a page."""
        with self._open(self.url + path, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def post(self, path: str, page: str, **fields: str) -> None:
        """Send a form with the token of a page."""
        token = self.get(page).partition(TOKEN)[2].partition('"')[0]
        data = urlencode({"token": token, **fields}).encode()
        address = self.url + path
        request = Request(address, data, {"Origin": self.url})  # noqa: S310  # it began with http
        self._open(request, timeout=PATIENCE).close()

    @contextmanager
    def viewer(self) -> Iterator[None]:
        """Poll the overview, which follows the database, for as long as the block lasts."""
        stream: Any = self._open(self.url + "/live/", timeout=PATIENCE)
        ended = threading.Event()

        def read() -> None:
            with suppress(OSError, ValueError, AttributeError):  # as it is closed
                while not ended.is_set():
                    stream.readline()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            stream.close()


@contextmanager
def dashboard(dsn: str) -> Iterator[tuple[psutil.Popen, Browser]]:
    """Run the dashboard on a database for as long as the block lasts, and log in as operator."""
    password = secrets.token_urlsafe()
    with tempfile.TemporaryDirectory() as folder:
        logins = Path(folder) / "logins"
        logins.write_text(make_entry(USER, "operator", password) + "\n")
        command = ["-m", "pgqpy", "dashboard", "--port", "0", "--dsn", dsn]
        process = psutil.Popen(
            [sys.executable, *command, "--password-file", str(logins)], stderr=PIPE, text=True
        )
        try:
            line = cast("IO[str]", process.stderr).readline()
            verify("the dashboard started", line.startswith(STARTED), wanted=True)
            yield process, Browser(line.removeprefix(STARTED).strip(), password)
        finally:
            process.terminate()
            process.communicate()
