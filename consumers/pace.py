"""How fast a worker handles events, and so how many of a large range it wants at a time. No I/O."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgqpy.consumers.parts import list_size
from pgqpy.consumers.settings import handler_name

if TYPE_CHECKING:
    from pgqpy.consumers.settings import BaseConsumer

WANTED_TIME = 0.5  # seconds of a worker's own work
SLOW = 0.004  # seconds an event; below, to cut a range costs more than to share it saves


class Pace:
    """Measures the handlers of a worker. `wanted` is for take_part: None takes a range uncut.

    `with` measures: handlers run in its block. Taking, reading and finishing a batch stay outside,
    because a batch of one event spends most of its time on these round trips.

    Before the first batch the worker wants one event for each handler that runs side by side. If
    the handlers are slow, a worker with a whole range would leave nothing to the others. A handler
    of batches may take long for each batch, however small, so it begins with one list.
    """

    def __init__(self, consumer: BaseConsumer) -> None:
        """Know nothing yet. What is measured is kept when a session is lost."""
        by_event = handler_name(consumer) == "process_event"
        self.wanted: int | None = consumer.concurrency if by_event else list_size(consumer)
        self._began = self._spent = 0.0

    def __enter__(self) -> None:
        """Note that handlers run."""
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        """Note that no handler runs."""
        self._spent += time.monotonic() - self._began

    def begin(self) -> None:
        """Note that another batch begins."""
        self._spent = 0.0

    def end(self, events: int) -> None:
        """Note that the batch is handled: so many events."""
        if not events:
            return
        each = self._spent / events
        self.wanted = max(1, int(WANTED_TIME / each)) if each > SLOW else None
