"""The totals and outages of a consumer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgqpy.consumers.handler_times import HandlerTimes
    from pgqpy.consumers.tracing import Tracing

COUNTS = ("batches", "events", "retries", "dead")


@dataclass
class ConsumerTotals:
    """Totals of the batches that were finished since the consumer was made."""

    batches: int = 0
    events: int = 0  # passed to the handler: not those parked behind another event
    retries: int = 0
    dead: int = 0
    times: HandlerTimes | None = field(default=None, repr=False, compare=False)  # if exposed
    tracing: Tracing | None = field(default=None, repr=False, compare=False)  # if traced


@dataclass(frozen=True)
class Outage:
    """A time in which a consumer cannot look for batches, or may lose the batch that it has."""

    reason: str = ""  # empty before the first connection
    since: float = field(default_factory=time.monotonic)
    what: str = "no working connection to the database"

    def __str__(self) -> str:
        text = f"{self.what} for {time.monotonic() - self.since:.1f} s"
        return f"{text}: {self.reason}" if self.reason else text
