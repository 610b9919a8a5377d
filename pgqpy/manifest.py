"""The SQL of the schema pgq, read from ``schema/install.sql`` and the files that it includes.

psql can run the same file, so the order of installation is written down once.
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
_STEP = re.compile(r"steps/(\d+)[^/]*\.sql")
INITIAL = 1  # the version that the files in tables/ make


class Piece(NamedTuple):
    """A part of the SQL text, with its file relative to ``schema/``."""

    file: str
    text: str
    line: int  # of its first line in that file, from 1

    @property
    def step(self) -> int | None:
        """The version of the tables after this file; None if it is no numbered step."""
        match = _STEP.fullmatch(self.file)
        return int(match[1]) if match else None


def pieces() -> Iterator[Piece]:
    """Yield the whole schema in order: lines of the manifest and included files."""
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
    """Yield the pieces for the server, without psql's own commands."""
    return (piece for piece in pieces() if not piece.text.startswith("\\"))


def preflight_sql() -> str:
    """Return the part that refuses a schema of another owner before it is read."""
    return "".join(piece.text for piece in pieces() if piece.file == PREFLIGHT)


def print_sql() -> str:
    """Return the whole schema as one file for psql: ``pgqpy schema print | psql``."""
    return "".join(piece.text for piece in pieces())


def execute_sql() -> str:
    """Return the whole schema as one string for the server."""
    return "".join(piece.text for piece in server_pieces())


@cache
def shipped_version() -> int:
    """Return the version of this package's schema: the number of its last step."""
    return max((piece.step or INITIAL for piece in pieces()), default=INITIAL)


def place(position: str | None) -> str:
    """Translate a character position in `execute_sql`, from 1, to ``file:line: ``."""
    if not position:
        return ""
    left = int(position) - 1
    for piece in server_pieces():
        if left < len(piece.text):
            return f"schema/{piece.file}:{piece.line + piece.text.count(chr(10), 0, left)}: "
        left -= len(piece.text)
    return ""
