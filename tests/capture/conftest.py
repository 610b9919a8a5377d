"""Databases whose tables are captured, and the commands on them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pgqpy.cli.app import app
from tests.guarantees.sessions import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

    from tests.cli.support import Run


@pytest.fixture
def db(dsn: str) -> Iterator[Database]:
    """A fresh database with sessions to interleave, and the queue `q` with its consumer `c`."""
    with closing(Database(dsn)) as database:
        database.queue()
        yield database


@pytest.fixture
def run(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("list", "--check")`: run `pgqpy capture` on the test's database."""
    monkeypatch.setenv("PGQPY_DSN", dsn)

    def runner(*args: str) -> Result:
        return CliRunner().invoke(app, ["capture", *args], prog_name="pgqpy")

    return runner
