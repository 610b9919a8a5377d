"""Bounded tracebacks in the log of consumers."""

from __future__ import annotations

import logging

from pgqpy.texts import traceback_text


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
