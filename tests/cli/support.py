"""What every failure of the command line looks like, and names for the fixtures' types."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import psycopg
from click.testing import Result

from tests.support.processes import PythonProcess

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]
Login = Callable[..., str]
Run = Callable[..., Result]
RunJson = Callable[..., Any]
Examine = Callable[..., tuple[int, dict[str, tuple[str, str]]]]
Spawn = Callable[..., PythonProcess]
Module = Callable[[str], str]
Start = Callable[..., subprocess.Popen[str]]


def failed_with(result: Result, exit_code: int, *words: str) -> bool:
    """Check that it failed with this exit code and one line on stderr with these words in it."""
    lines = result.stderr.splitlines()
    assert result.exit_code == exit_code, (result.exit_code, result.stdout, result.stderr)
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: "), result.stderr
    missing = [word for word in words if word not in lines[0]]
    assert not missing, (missing, lines[0])
    return True
