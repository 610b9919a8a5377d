"""How long, and why, a running consumer has had no database session: for its health only."""

from __future__ import annotations

import time
from typing import NamedTuple


class Outage(NamedTuple):
    """A time in which a consumer takes no batches, until its session is set up."""

    since: float  # of time.monotonic()
    reason: str = ""  # empty before the first connection

    def __str__(self) -> str:
        """Say it in a sentence."""
        text = f"no working connection to the database for {time.monotonic() - self.since:.1f} s"
        return f"{text}: {self.reason}" if self.reason else text


def begin() -> Outage:
    """Begin an outage: nothing was tried yet."""
    return Outage(time.monotonic())
