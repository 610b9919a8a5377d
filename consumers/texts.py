"""Exceptions as text: as one line and as a traceback, cut and escaped."""

from __future__ import annotations

import logging
import traceback

from pgqpy.texts import LONGEST, printable

TRACEBACK_LINES = 200  # the first and the last of them


def describe(error: BaseException) -> str:
    """Return the exception's type and text as one printable line that PostgreSQL can store."""
    kind = type(error).__qualname__
    try:
        text = str(error)
    except Exception as broken:  # noqa: BLE001  # whatever a class of the application does there
        text = f"(its text cannot be had: str() raises {type(broken).__qualname__})"
    return printable(f"{kind}: {text}" if text else kind)


def traceback_text(error: BaseException) -> str:
    """Return the traceback as logging prints it, with every line cut and escaped.

    The text of an exception may have lines of its own. They are indented, so that none of them
    looks like a line of the log.
    """
    lines: list[str] = []
    for part in _parts(error):
        text = part[: 2 * LONGEST].rstrip("\n")
        first, *more = text.split("\n")
        indent = "" if first.startswith("  ") else "    "
        lines += [printable(first), *(indent + printable(line) for line in more)]
    if len(lines) > TRACEBACK_LINES:
        half = TRACEBACK_LINES // 2
        left_out = f"  … {len(lines) - 2 * half} lines …"
        lines = [*lines[:half], left_out, *lines[-half:]]
    return "\n".join(lines)


def _parts(error: BaseException) -> list[str]:
    try:
        return list(traceback.TracebackException.from_exception(error).format())
    except Exception as broken:  # noqa: BLE001  # as in describe: a SyntaxError's text may be no str
        problem = f"(its traceback cannot be had: {type(broken).__qualname__})"
        return [problem, *traceback.format_tb(error.__traceback__), describe(error)]


class BoundedTraceback(logging.Filter):
    """Gives a record its traceback as text, before a formatter would make one without bounds."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `exc_text`, which logging.Formatter uses if it is there; keep every record."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            record.exc_text = traceback_text(error)
        return True


logger = logging.getLogger("pgqpy.consumers")
logger.addFilter(BoundedTraceback())
