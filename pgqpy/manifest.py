"""Read the manifest of the engine: ``schema/install.sql`` and the files that it names.

It is the only list of what is installed: psql runs it as it stands, and this module reads the
same file, so there is no second order of things to keep right.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = "install.sql"
PREFLIGHT = "setup/preflight.sql"

_INCLUDE = re.compile(r"\\ir\s+(\S+)\s*")
_MIGRATION = re.compile(r"tables/(\d+)[^/]*\.sql")


class Piece(NamedTuple):
    """A stretch of the one SQL text and the file it came from, relative to ``schema/``."""

    file: str
    text: str
    line: int  # of its first line in that file, from 1

    @property
    def migration(self) -> int | None:
        """The version that this file brings the state to; None if it is no migration."""
        match = _MIGRATION.fullmatch(self.file)
        return int(match[1]) if match else None


def pieces() -> Iterator[Piece]:
    """Yield the whole schema in order: each line of the manifest, each file that it includes."""
    schema = files("pgqpy") / "schema"
    manifest = (schema / MANIFEST).read_text(encoding="utf-8")
    for number, line in enumerate(manifest.splitlines(keepends=True), start=1):
        include = _INCLUDE.fullmatch(line)
        if include is None:
            yield Piece(MANIFEST, line, number)
            continue
        text = schema.joinpath(*include[1].split("/")).read_text(encoding="utf-8")
        yield Piece(include[1], text if text.endswith("\n") else text + "\n", 1)


def server_pieces() -> Iterator[Piece]:
    """Yield what the server takes: psql's own commands are left out."""
    return (piece for piece in pieces() if not piece.text.startswith("\\"))


def preflight_sql() -> str:
    """Return the part that refuses a schema which is not the user's own, before it is read."""
    return "".join(piece.text for piece in pieces() if piece.file == PREFLIGHT)


def print_sql() -> str:
    """Return the whole schema as one file for psql: ``pgqpy schema print | psql``."""
    return "".join(piece.text for piece in pieces())


def execute_sql() -> str:
    """Return the whole schema as one string for the server."""
    return "".join(piece.text for piece in server_pieces())


@cache
def shipped_version() -> int:
    """Return the version this package installs: the number of the last file in ``tables/``."""
    return max((piece.migration or 0 for piece in pieces()), default=0)


def place(position: str | None) -> str:
    """Turn the server's position in `execute_sql`, in characters from 1, into ``file:line: ``."""
    if not position:
        return ""
    left = int(position) - 1
    for piece in server_pieces():
        if left < len(piece.text):
            return f"schema/{piece.file}:{piece.line + piece.text.count(chr(10), 0, left)}: "
        left -= len(piece.text)
    return ""
