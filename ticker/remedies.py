"""What to do about a failure, by SQLSTATE: the half of a log line that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

REMEDIES: Mapping[str, str] = {
    "42P01": "a table or sequence of the queue is gone: "
    "restore it, or drop the queue with pgqpy queue drop --force",
    "42883": "run pgqpy schema upgrade",
    "42501": "grant pgq_ticker to the role the ticker connects as",
    "55P03": "another session holds the queue's row or table: "
    "look for a transaction that is open for long (pgqpy doctor)",
    "53100": "the server's disk is full",
    "25006": "the server is read-only: name the primary in the connection string",
}


def remedy(exc: BaseException) -> str | None:
    """Return what to do about `exc`: what the server itself hints at, or what we know."""
    for error in (exc, exc.__cause__):
        if isinstance(error, psycopg.Error) and error.diag.message_hint:
            return error.diag.message_hint
    return REMEDIES.get(sqlstate(exc) or "")


def sqlstate(exc: BaseException) -> str | None:
    """Return the error's SQLSTATE; also of an error of ours that came of one of psycopg's."""
    code = getattr(exc, "sqlstate", None)
    return code if isinstance(code, str) else getattr(exc.__cause__, "sqlstate", None)


def brief(exc: BaseException) -> str:
    """Return the error's first line: what the server adds below it repeats statements."""
    lines = str(exc).strip().splitlines()
    return printable(lines[0]) if lines else type(exc).__name__
