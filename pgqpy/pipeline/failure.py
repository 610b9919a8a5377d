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
    def kind(self) -> type[BaseException]:
        """The class with this name; Exception if there is none."""
        module, _, name = self.name.rpartition(".")
        try:
            found = getattr(import_module(module or "builtins"), name)
        except (ImportError, AttributeError):
            return Exception
        return found if isinstance(found, type) else Exception

    @property
    def is_connection_loss(self) -> bool:
        """Whether the connection to PostgreSQL was lost, so that a retry may succeed."""
        return issubclass(self.kind, CONNECTION_ERRORS)

    def error(self) -> PgqError:
        """Return it as an instance of its own class if that is pgqpy's, else as PipelineFailed."""
        if issubclass(self.kind, PgqError):
            return self.kind(self.message)
        return PipelineFailed(f"{self.name.rpartition('.')[2]}: {self.message}".lstrip(": "))


def find_cause(text: str) -> Cause:
    """Return the last known Python error in a text, else the last Python error, else Java's cause.

    Spark may raise further errors while it handles ours, so the last one may not be the cause.
    """
    first, *tracebacks = text.split(TRACEBACK)
    ends = [found for traceback in tracebacks if (found := RAISED.search(traceback))]
    raised = [Cause(found[1], SQLSTATE.sub("", found[2])) for found in ends or JAVA.finditer(text)]
    known = [cause for cause in raised if issubclass(cause.kind, (PgqError, *CONNECTION_ERRORS))]
    if raised:
        return known[-1] if known else raised[-1]
    return Cause("", SQLSTATE.sub("", first.strip().partition("\n")[0]))
