"""The plugin of pytest, run in a folder of its own. docs/testing.md uses its temporary server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ALL = """
def test_the_server_is_the_one_that_is_named(pgq_server, pgq_database, pgq_queue, emitted):
    assert pgq_server == {dsn!r}
    client = pgq_queue("orders")
    client.insert_event("orders", "placed", "a")
    assert [event.data for event in emitted("orders")] == ["a"]


def test_each_test_has_a_database_of_its_own(pgq_queue, emitted):
    pgq_queue("orders")
    assert emitted("orders") == []
"""


def run_pytest(folder: Path, *options: str, code: int = 0, **environment: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", *options]
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PGQPY_TEST_DSN": "", **environment}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("by", ["variable", "option"])
def test_a_server_may_be_named(tmp_path: Path, server: Any, by: str) -> None:
    dsn = server.dsn()
    (tmp_path / "test_all.py").write_text(ALL.format(dsn=dsn), encoding="utf-8")
    if by == "variable":
        told = run_pytest(tmp_path, PGQPY_TEST_DSN=dsn)
    else:
        told = run_pytest(tmp_path, "-o", f"pgqpy_test_dsn={dsn}")
    assert "2 passed" in told


def test_the_password_of_the_server_is_not_in_what_a_failing_test_prints(
    tmp_path: Path, server: Any
) -> None:
    text = """
import os
def test(pgq_database):
    assert (len(os.environ["PGPASSWORD"]), pgq_database) == 0
"""
    (tmp_path / "test_fails.py").write_text(text, encoding="utf-8")
    told = run_pytest(tmp_path, code=1, PGQPY_TEST_DSN=f"{server.dsn()} password=geheim")
    assert "(6, " in told
    assert "dbname=" in told
    assert "geheim" not in told


def test_a_run_without_the_fixtures_imports_nothing_of_pgqpy(tmp_path: Path) -> None:
    text = "import sys\ndef test(): assert not {'pgqpy', 'psycopg', 'pydantic'} & set(sys.modules)"
    (tmp_path / "test_nothing.py").write_text(text, encoding="utf-8")
    assert "1 passed" in run_pytest(tmp_path)


def test_this_suite_leaves_the_plugin_out(pytestconfig: pytest.Config) -> None:
    """What it imports would be imported before coverage begins."""
    assert pytestconfig.pluginmanager.is_blocked("pgqpy")
