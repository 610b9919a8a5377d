"""The generator of the folders _sync/, and its check."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "unasync.py"

SOURCE = '''"""A client."""

from psycopg import AsyncConnection

from a._async.base import AsyncBase


class AsyncClient(AsyncBase):
    async def __aenter__(self):
        async with self.lock:
            return await self.connection.execute("select 1")
'''
NOTE = "[Generated from _async/client.py by tools/unasync.py: edit that file, not this one.]"
TWIN = '''"""[NOTE] A client."""

from psycopg import Connection

from a._sync.base import Base


class Client(Base):
    def __enter__(self):
        with self.lock:
            return self.connection.execute("select 1")
'''


@pytest.fixture
def tool() -> dict[str, Any]:
    return runpy.run_path(str(TOOL))


@pytest.fixture
def tree(tmp_path: Path, tool: dict[str, Any]) -> Path:
    """A package with one source, and one that uses every other rule."""
    for package in tool["PACKAGES"]:
        (tmp_path / package / "_async").mkdir(parents=True)
    first = tmp_path / tool["PACKAGES"][0]
    (first / "_async" / "client.py").write_text(SOURCE)
    (first / "_async" / "every_rule.py").write_text(EVERY_RULE)
    return first


EVERY_RULE = '''"""Rules."""

from contextlib import aclosing, asynccontextmanager


def connect_async() -> AsyncGenerator[int, None]: ...


def wait() -> Awaitable[None]: ...


async def __aiter__(self):
    await stack.enter_async_context(self)


def is_running(stream):
    return stream.ag_running
'''


def test_twin_is_written_line_for_line(tool: dict[str, Any], tree: Path, tmp_path: Path) -> None:
    assert tool["main"]([], root=tmp_path) == 0
    assert (tree / "_sync" / "client.py").read_text() == TWIN.replace("[NOTE]", NOTE)
    assert tool["main"](["--check"], root=tmp_path) == 0


def test_check_names_what_is_stale_has_no_source_or_matches_nothing(
    tool: dict[str, Any], tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool["main"]([], root=tmp_path)
    (tree / "_sync" / "client.py").write_text("edited by hand")
    (tree / "_async" / "every_rule.py").unlink()
    assert tool["main"](["--check"], root=tmp_path) == 1
    said = capsys.readouterr().err
    assert "_sync/client.py is stale" in said
    assert "_sync/every_rule.py has no source" in said
    assert "matched nothing" in said
    assert (tree / "_sync" / "client.py").read_text() == "edited by hand"
