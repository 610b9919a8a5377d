"""Totals of a running consumer, for its metrics only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counts:
    """Totals of the batches that were finished since the consumer was made."""

    batches: int = 0
    events: int = 0
    retries: int = 0
    dead: int = 0
