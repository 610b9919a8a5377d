"""Why a query ended: read from what Spark reports, which is a text with tracebacks in it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import NamedTuple

import psycopg

from pgqpy.errors import ConnectionFailed, PgqError

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"^([A-Za-z_][\w.]*): (.*)$", re.MULTILINE)
JAVA = re.compile(r"^(?:Caused by: )?((?:\w+\.)+\w*(?:Exception|Error)): (.*)$", re.MULTILINE)
STATE = re.compile(r"\s*SQLSTATE: \w{5}$")
PASSING = (psycopg.OperationalError, ConnectionFailed, ConnectionError)


class PipelineFailed(PgqError):
    """The pipeline ended for a reason that starting it again does not mend."""


class Cause(NamedTuple):
    """What was raised first, on the driver or an executor."""

    name: str  # of the class, with its module; "" if there is none
    message: str

    @property
    def passes(self) -> bool:
        """Whether it is a lost connection: gone once the server is there again."""
        kind = _find(self.name)
        return kind is not None and issubclass(kind, PASSING)

    def error(self) -> PgqError:
        """Return it as an error of our own, of its own class where that is one."""
        kind = _find(self.name)
        if kind is not None and issubclass(kind, PgqError):
            return kind(self.message)
        return PipelineFailed(f"{self.name.rpartition('.')[2]}: {self.message}".lstrip(": "))


def cause_of(text: str) -> Cause:
    """Find the exception at the end of the last Python traceback, else Java's last cause."""
    before, found, traceback = text.rpartition(TRACEBACK)
    raised = RAISED.search(traceback) if found else None
    if raised is None:
        raised = next(reversed(list(JAVA.finditer(text))), None)
    if raised is None:
        first = (before or text).strip().partition("\n")[0]
        return Cause("", STATE.sub("", first))
    return Cause(raised[1], STATE.sub("", raised[2]))


def _find(name: str) -> type[BaseException] | None:
    """Find a class by its name; None if there is none."""
    module, _, kind = name.rpartition(".")
    try:
        found = getattr(import_module(module or "builtins"), kind)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) else None
