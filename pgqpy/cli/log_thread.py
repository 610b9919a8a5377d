"""A thread that writes the log, for a process that must not wait for the reader of its stderr."""

from __future__ import annotations

import logging
import threading
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue

END_WAIT = 2.0  # seconds that the end of the process waits for the last lines to be read


class LogThread:
    """Takes the place of the root logger's handlers, and calls them in a thread."""

    def __init__(self) -> None:
        """Change nothing yet."""
        self._handlers = list(logging.getLogger().handlers)
        records: SimpleQueue[logging.LogRecord] = SimpleQueue()
        self._queued = _Queued(records)
        self._listener = QueueListener(records, *self._handlers, respect_handler_level=True)

    def start(self) -> None:
        """Let the thread write from now on."""
        self._listener.start()
        logging.getLogger().handlers = [self._queued]

    def stop(self) -> bool:
        """Write what is left; False if nobody reads it: then the thread still waits."""
        logging.getLogger().handlers = self._handlers
        stopper = threading.Thread(target=self._listener.stop, daemon=True)
        stopper.start()
        stopper.join(END_WAIT)
        return not stopper.is_alive()


class _Queued(QueueHandler):
    """Queues records as they are: no other process reads them."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record
