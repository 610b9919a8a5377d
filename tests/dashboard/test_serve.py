"""The command: what it refuses to serve, how it ends, and how logins are made."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pgqpy.cli.app import app
from pgqpy.dashboard import check_packages
from pgqpy.dashboard.access import (
    HeaderAccess,
    LoopbackAccess,
    PasswordAccess,
    make_entry,
    parse_entries,
)
from pgqpy.dashboard.serve import Settings, choose_access, choose_hosts
from pgqpy.errors import InvalidArgument, MissingExtra
from tests.dashboard.conftest import SECRET
from tests.support.processes import PythonProcess

PROXY: dict[str, Any] = {"user_header": "X-User", "proxies": ("10.0.0.5",)}


@pytest.fixture
def logins(tmp_path: Path) -> str:
    """A password file with one operator."""
    (tmp_path / "logins").write_text(make_entry("anna", "operator", SECRET))
    return str(tmp_path / "logins")


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "queues.example.org", ""])
def test_no_other_address_without_logins(host: str) -> None:
    with pytest.raises(InvalidArgument, match="--password-file"):
        choose_access(Settings(host=host))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"user_header": "X-User"}, "belong together"),
        ({"proxies": ("10.0.0.5",)}, "belong together"),
        ({**PROXY, "proxies": ("proxy.example.org",)}, "no address"),
        ({**PROXY, "password_file": "x"}, "not both"),
        ({"operators": ("anna",)}, "--user-header"),
        ({"password_file": "/no/such/file"}, "cannot read"),
        ({"password_file": "/dev/null"}, "no login"),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        choose_access(Settings(**options))


def test_each_way_in(logins: str) -> None:
    assert isinstance(choose_access(Settings()), LoopbackAccess)
    anywhere = Settings(host="0.0.0.0", password_file=logins)
    assert isinstance(choose_access(anywhere), PasswordAccess)
    assert isinstance(choose_access(Settings(host="10.0.0.1", **PROXY)), HeaderAccess)


def test_the_names_of_the_host() -> None:
    assert choose_hosts(Settings(host="10.0.0.1", host_names=("Q.example",))) == (
        "10.0.0.1",
        "q.example",
    )
    assert "localhost" in choose_hosts(Settings())
    assert choose_hosts(Settings(host="0.0.0.0", host_names=("q.example",))) == ("q.example",)
    with pytest.raises(InvalidArgument, match="--host-name"):
        choose_hosts(Settings(host="0.0.0.0"))


def test_a_missing_package_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgqpy.dashboard.mount.find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'pgqpy[dashboard]'")):
        check_packages()


Start = Callable[..., tuple[PythonProcess, str]]


@pytest.fixture
def start(spawn: Callable[..., PythonProcess], dsn: str) -> Start:
    """Start `pgqpy dashboard` on a free port; return the process and its URL."""

    def run(dsn: str = dsn) -> tuple[PythonProcess, str]:
        process = spawn("-m", "pgqpy", "dashboard", "--port", "0", env={"PGQPY_DSN": dsn})
        url = process.wait_for_output("/\n").partition("dashboard: ")[2].strip()
        return process, url

    return run


@contextmanager
def get(url: str, path: str) -> Iterator[HTTPResponse]:
    """Ask for a page, by a connection of its own."""
    address = url.removeprefix("http://").rstrip("/")
    with closing(HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET", path)
        with closing(connection.getresponse()) as answer:
            yield answer


def test_a_page_is_live_and_the_server_ends_while_somebody_looks(start: Start) -> None:
    process, url = start()
    with get(url, "/") as page:
        assert b"Overview" in page.read()
    with get(url, "/live/") as stream:
        assert str(stream.headers["content-type"]).startswith("text/event-stream")
        heads = (line for line in stream if b'class="status"' in line)
        first = next(heads)
        assert next(head for head in heads if head != first)  # the time
        process.signal(signal.SIGTERM)
        list(heads)  # it ends
    assert process.wait() == 0
    assert "Traceback" not in process.output()


def test_ctrl_c_ends_it(start: Start) -> None:
    process, _url = start()
    process.signal(signal.SIGINT)
    assert process.wait() in {0, 130}
    assert "Traceback" not in process.output()


SIGNALLED = """
import os, sys
from pgqpy.dashboard.serve import Settings, serve
serve("dbname=x", Settings(port=0), lambda _url: os.kill(os.getpid(), int(sys.argv[1])))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_server_has_begun_ends_it(
    spawn: Callable[..., PythonProcess], number: int
) -> None:
    process = spawn("-c", SIGNALLED, str(int(number)))
    assert process.wait() == 0
    assert process.output() == ""


def test_a_port_in_use_is_one_line(spawn: Callable[..., PythonProcess], dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = spawn("-m", "pgqpy", "dashboard", "--port", port, env={"PGQPY_DSN": dsn})
        assert process.wait() == 1
    (line,) = process.output().splitlines()
    assert "cannot listen on 127.0.0.1" in line
    assert line.endswith(": --port names another")


def test_a_server_that_is_not_there_is_shown_in_the_page(start: Start) -> None:
    process, url = start("host=/nonexistent-directory dbname=x")
    with get(url, "/") as answer:
        assert answer.status == 503
        assert b"cannot connect" in answer.read()
    assert process.terminate() == 0


@pytest.mark.parametrize("options", ["--host 0.0.0.0", "--proxy 10.0.0.5", "--password-file /no"])
def test_wrong_usage_is_one_line(options: str) -> None:
    result = CliRunner().invoke(app, ["dashboard", *options.split()])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")


def test_the_line_of_a_login_comes_from_the_command() -> None:
    command = ["dashboard", "--new-login", "anna", "--role", "operator"]
    result = CliRunner().invoke(app, command, input=SECRET + "\n")
    assert result.exit_code == 0
    assert parse_entries(result.stdout)["anna"].role == "operator"
    assert CliRunner().invoke(app, command, input="short\n").exit_code == 2
