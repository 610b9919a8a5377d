"""No process of ours imports from the working directory: somebody else may write there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import pgqpy
from pgqpy.child_processes import WITHOUT_P, own_process
from pgqpy.cli.consumer_run import worker_commands

PGQPY = str(Path(sys.executable).with_name("pgqpy"))
FOREIGN = ("pgqpy", "click", "json", "psycopg", "runpy")  # modules that a process of ours imports
NOTES = "open('ran', 'a').write(__name__)"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory in which somebody has put modules with the names of ours."""
    for name in FOREIGN:
        (tmp_path / f"{name}.py").write_text(NOTES)
    return tmp_path


def said(directory: Path, *command: str, **variables: str) -> tuple[int, str]:
    """Run a command there; return its exit code and what it said. No foreign module has run."""
    supervisor, stdin = socket.socketpair()  # a worker ends when it is closed
    with supervisor, stdin:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **variables},
            stdin=stdin.fileno(),
            capture_output=True,
            text=True,
            check=False,
        )
    assert not (directory / "ran").exists()
    return done.returncode, done.stdout + done.stderr


def test_the_trap_springs_in_a_process_that_runs_a_module(directory: Path) -> None:
    with pytest.raises(AssertionError):
        said(directory, sys.executable, "-m", "pgqpy", "--version")


@pytest.mark.parametrize(
    "command",
    [own_process("pgqpy", "--version"), [sys.executable, "-c", WITHOUT_P, "pgqpy", "--version"]],
    ids=["this Python", "before Python 3.11"],
)
def test_a_process_of_ours(directory: Path, command: list[str]) -> None:
    assert said(directory, *command) == (0, f"pgqpy {pgqpy.__version__}\n")


def test_a_worker_finds_its_module_there_and_not_ours(tmp_path: Path) -> None:
    (tmp_path / "pgqpy.py").write_text(NOTES)
    (tmp_path / "billing.py").write_text("raise ValueError('found')")
    (command,) = worker_commands(1, "billing:Billing", (), (), ("", None))
    code, output = said(tmp_path, *command)
    assert (code, "module billing fails when it is imported: ValueError: found" in output) == (
        1,
        True,
    ), output


def test_no_command_runs_a_module_in_another_way() -> None:
    root = Path(pgqpy.__file__).parent
    assert [path for path in root.rglob("*.py") if '"-m", "pgqpy' in path.read_text()] == []
