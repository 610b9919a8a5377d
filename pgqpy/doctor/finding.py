"""The result of a check."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from psycopg import sql

from pgqpy.texts import duration

Row = dict[str, Any]  # of a check's query
Level = Literal["ok", "skipped", "warn", "fail"]


class Finding(NamedTuple):
    """The result of one check on one object."""

    level: Level
    check: str
    what: str
    remedy: str = ""


def is_ahead(age: timedelta) -> bool:
    """Say whether a time lies in the future, because the server's clock was ahead then.

    Such a time does not tell how long ago it was.
    """
    return age < -timedelta(minutes=1)


def command(*words: str) -> str:
    """Return a pgqpy command, quoted for a shell, as an operator pastes it."""
    return shlex.join(("pgqpy", *words))


def quoted_role(name: str) -> str:
    """Return the name of a role as SQL has it."""
    return sql.Identifier(name).as_string(None)


def unregistering(queue: str, consumer: str) -> str:
    """Return the command that gives a consumer up; with events left, it asks on a terminal."""
    unregister = command("consumer", "unregister", queue, consumer)
    return f"{unregister} (in a script, with --force: what waits for it is lost)"


def in_future(age: timedelta) -> str:
    """Describe a time that is_ahead finds."""
    return f"lies {duration(-age)} in the future: the clock was ahead"
