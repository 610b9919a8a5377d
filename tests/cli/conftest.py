"""Run the command line inside the test's process, on the test's database."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import pgqpy
from pgqpy.cli.app import app
from tests.cli.support import Examine, Module, Run, Start
from tests.support.databases import new_database
from tests.support.fork_server import ForkedProcess
from tests.support.servers import Server

_numbers = itertools.count(1)
LEVELS = ("ok", "skipped", "warn", "fail")


@pytest.fixture(scope="module")
def module_dsn(server: Server, template: str) -> Iterator[str]:
    """A database for the tests of one module: cloning one for each of them takes half a second."""
    with new_database(server, template) as name:
        yield server.dsn(name)


@pytest.fixture
def dsn(module_dsn: str) -> Iterator[str]:
    """The module's database, without queues."""
    yield module_dsn
    with pgqpy.connect(module_dsn) as client:
        for info in client.get_queue_info():
            client.drop_queue(info.queue_name, force=True)


@pytest.fixture
def orders(client: pgqpy.Client) -> pgqpy.Client:
    """A client of the test's database, with a queue `orders` and its consumer `billing`."""
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    return client


@pytest.fixture
def bare_run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """`bare_run("queue", "list")` without any database named."""
    for name in ("PGQPY_DSN", "PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)

    def runner(*args: str, **kwargs: Any) -> Result:
        return CliRunner().invoke(app, args, prog_name="pgqpy", **kwargs)

    return runner


@pytest.fixture
def run(dsn: str, bare_run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("queue", "list")` on the test's database."""
    monkeypatch.setenv("PGQPY_DSN", dsn)
    return bare_run


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Run a command with --json and return what it printed."""

    def runner(*args: str) -> Any:
        result = run(*args, "--json")
        assert result.stdout, result.stderr
        return json.loads(result.stdout)

    return runner


@pytest.fixture
def examine(run: Run) -> Examine:
    """Run the doctor; return its exit code and of each check: its worst level, all it said."""

    def examiner(*args: str) -> tuple[int, dict[str, tuple[str, str]]]:
        result = run("doctor", "--json", *args)
        assert result.stderr == ""
        worst: dict[str, tuple[str, str]] = {}
        for found in json.loads(result.stdout):
            level, said = worst.get(found["check"], ("ok", ""))
            level = max(level, found["level"], key=LEVELS.index)
            worst[found["check"]] = (level, f"{said}{found['what']}; {found['remedy']}\n")
        return result.exit_code, worst

    return examiner


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """Write a module into the working directory and return its name."""
    monkeypatch.chdir(tmp_path)

    def writer(text: str) -> str:
        name = f"pgqpy_test_module_{os.getpid()}_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return writer


@pytest.fixture
def start(tmp_path: Path, dsn: str) -> Iterator[Start]:
    """Start `pgqpy consumer run` in the working directory; killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def starter(place: str, *options: str) -> subprocess.Popen[str]:
        process = ForkedProcess(
            [sys.executable, "-u", "-m", "pgqpy", "consumer", "run", place, *options],
            cwd=tmp_path,
            env={**os.environ, "PGQPY_DSN": dsn},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield starter
    for process in started:
        process.kill()
        process.communicate()
