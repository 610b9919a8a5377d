"""What a run of a consumer logs, with bounded tracebacks."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from psycopg.errors import LockNotAvailable, ReadOnlySqlTransaction

from pgqpy.texts import READ_ONLY, describe, printable, traceback_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

    from pgqpy.consumers.settings import BaseConsumer


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


def log_lost(consumer: BaseConsumer, state: RetryCallState) -> str:
    """Log that the session was lost, and when the next one is tried; return the reason."""
    error = state.outcome and state.outcome.exception()
    delay = state.next_action.sleep if state.next_action else 0.0
    happened = "lost its connection"
    if isinstance(error, LockNotAvailable):
        happened = "waits for a lock of another session"
    reason = printable(" ".join(str(error).split()))
    if isinstance(error, ReadOnlySqlTransaction):
        happened = "has a session that may not write"
        reason += f": {READ_ONLY}"
    text = "consumer %s of queue %s %s (%s), tries again in %.1f s"
    logger.warning(text, consumer.name, consumer.queue, happened, reason, delay)
    return reason


def finishing(consumer: BaseConsumer, in_progress: str) -> Callable[[], None]:
    """Return what logs that a signal came while handlers run."""
    text = "consumer %s of queue %s: finishing %s; again to stop now"
    return partial(logger.info, text, consumer.name, consumer.queue, in_progress)


def log_ended(consumer: BaseConsumer, in_progress: str, error: BaseException) -> None:
    """Log that an exception of a handler ends the run."""
    text = "consumer %s of queue %s ends: the handler of %s raised %s; the batch stays open"
    logger.error(text, consumer.name, consumer.queue, in_progress, describe(error))
