"""The log of ``pgqpy consumer run``, on standard error, with the lines of the ticker's log."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog
from structlog.stdlib import ProcessorFormatter

from pgqpy.consumers.texts import traceback_text
from pgqpy.ticker.logs import LEVELS, renderers

if TYPE_CHECKING:
    from structlog.typing import EventDict


def log_to_stderr(log_format: str, log_level: str) -> None:
    """Let everything that logs in this process, the application too, log in one form."""
    formatter = ProcessorFormatter(
        processors=[ProcessorFormatter.remove_processors_meta, *renderers(log_format)],
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _bound_traceback,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=LEVELS[log_level], handlers=[handler])


def _bound_traceback(_logger: object, _method: str, entry: EventDict) -> EventDict:
    error = (entry.pop("exc_info", None) or (None, None))[1]
    if error is not None:
        entry["exception"] = traceback_text(error)
    return entry
