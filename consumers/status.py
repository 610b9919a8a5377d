"""The totals and outages of a running consumer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple


@dataclass
class ConsumerTotals:
    """Totals of the batches that were finished since the consumer was made."""

    batches: int = 0
    events: int = 0
    retries: int = 0
    dead: int = 0


class Outage(NamedTuple):
    """A time in which a consumer takes no batches, until its session is set up."""

    since: float  # of time.monotonic()
    reason: str = ""  # empty before the first connection

    def __str__(self) -> str:
        """Say it in a sentence."""
        text = f"no working connection to the database for {time.monotonic() - self.since:.1f} s"
        return f"{text}: {self.reason}" if self.reason else text


def begin_outage() -> Outage:
    """Return an outage that begins now."""
    return Outage(time.monotonic())
