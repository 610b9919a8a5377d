"""How log entries look on standard error: levels, and structlog's processors for text and JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def renderers(log_format: str) -> list[Any]:
    """Return the processors that turn a log entry into a line of text or JSON."""
    # structlog's default tracebacks, of both formats, print local variables, and so passwords.
    if log_format == "json":
        bare = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [structlog.processors.ExceptionRenderer(bare), structlog.processors.JSONRenderer()]
    colors = sys.stderr.isatty()
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
