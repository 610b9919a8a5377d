"""The daemon's log on standard error: structlog, as text or as JSON."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import structlog

from pgqpy.texts import printable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from structlog.typing import FilteringBoundLogger

    from pgqpy.ticker.settings import TickerSettings

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def make_logger(settings: TickerSettings) -> FilteringBoundLogger:
    """Return the daemon's logger.

    Nothing global is configured: the daemon may run inside an application.
    """
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            drop_empty,
            make_printable,
            *renderers(settings.log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]),
        cache_logger_on_first_use=True,
    )
    return logger


def renderers(log_format: str) -> list[Any]:
    """Return the processors that turn a log entry into a line of text or JSON."""
    # structlog's default tracebacks, of both formats, print local variables, and so passwords.
    if log_format == "json":
        bare = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        return [structlog.processors.ExceptionRenderer(bare), structlog.processors.JSONRenderer()]
    colors = sys.stderr.isatty()
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]


def drop_empty(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Leave out fields that are None."""
    return {name: value for name, value in event.items() if value is not None}


def make_printable(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Escape characters that are not printable, and cut long texts."""
    return {
        name: printable(value) if isinstance(value, str) else value for name, value in event.items()
    }
