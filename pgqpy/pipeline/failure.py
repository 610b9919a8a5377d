"""The cause of a failed query, found in Spark's error text with its Python tracebacks."""

from __future__ import annotations

import re
from importlib import import_module
from typing import NamedTuple

import psycopg

from pgqpy.errors import ConnectionFailed, PgqError

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"^([A-Za-z_][\w.]*): (.*)$", re.MULTILINE)
JAVA = re.compile(r"^(?:Caused by: |: )?((?:\w+\.)+\w*(?:Exception|Error)): (.*)$", re.MULTILINE)
SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}$")
CONNECTION_ERRORS = (psycopg.OperationalError, ConnectionFailed, ConnectionError)


class PipelineFailed(PgqError):
    """The pipeline ended with an error that a restart does not mend."""


class Cause(NamedTuple):
    """The exception that ended a query, on the driver or an executor."""

    name: str  # of the class, with its module; "" if there is none
    message: str

    @property
    def is_connection_loss(self) -> bool:
        """Whether the connection to PostgreSQL was lost, so that a retry may succeed."""
        return _is(self.name, *CONNECTION_ERRORS)

    @property
    def known(self) -> bool:
        """Whether it is an error of pgqpy or a lost connection."""
        return _is(self.name, PgqError, *CONNECTION_ERRORS)

    def error(self) -> PgqError:
        """Return it as an instance of its own class if that is pgqpy's, else as PipelineFailed."""
        kind = _find(self.name)
        if kind is not None and issubclass(kind, PgqError):
            return kind(self.message)
        return PipelineFailed(f"{self.name.rpartition('.')[2]}: {self.message}".lstrip(": "))


def find_cause(text: str) -> Cause:
    """Return the last known Python error in a text, else the last Python error, else Java's cause.

    Spark may raise further errors while it handles ours, so the last one may not be the cause.
    """
    first, *tracebacks = text.split(TRACEBACK)
    ends = [found for traceback in tracebacks if (found := RAISED.search(traceback))]
    raised = [_cause(found) for found in ends or JAVA.finditer(text)]
    known = [cause for cause in raised if cause.known]
    if raised:
        return known[-1] if known else raised[-1]
    return Cause("", SQLSTATE.sub("", first.strip().partition("\n")[0]))


def _cause(found: re.Match[str]) -> Cause:
    return Cause(found[1], SQLSTATE.sub("", found[2]))


def _is(name: str, *kinds: type[BaseException]) -> bool:
    kind = _find(name)
    return kind is not None and issubclass(kind, kinds)


def _find(name: str) -> type[BaseException] | None:
    """Return the class with this full name; None if there is none."""
    module, _, kind = name.rpartition(".")
    try:
        found = getattr(import_module(module or "builtins"), kind)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None
