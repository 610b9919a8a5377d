"""Progress figures of the running demo, read from the database."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.demo.balances import CONSUMER, QUEUE

if TYPE_CHECKING:
    from psycopg import Connection

TPS_WINDOW = 2.0  # seconds
FIGURES = """
    select pgq.seq_getval(q.queue_event_seq),
           (select coalesce(sum(events), 0)::bigint from finished_batch),
           extract(epoch from c.lag)::float8
      from pgq.queue q, pgq.get_consumer_info(%s, %s) c
     where q.queue_name = %s
"""


class Figures(NamedTuple):
    """The progress of the demo at one moment."""

    elapsed: float  # seconds since pgbench began
    events: int  # inserted
    processed: int
    lag: float  # seconds
    tps: float  # transactions per second, each inserts an event
    kills: int


class ProgressReader:
    """Reads the figures of the running demo."""

    def __init__(self, connection: Connection[Any]) -> None:
        """Start the clock. `connection` is in autocommit mode and has the demo's search_path."""
        self._connection = connection
        self._began = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque()
        self.kills = 0

    def read(self) -> Figures:
        """Return the current figures."""
        row = self._connection.execute(FIGURES, [QUEUE, CONSUMER, QUEUE]).fetchone()
        events, processed, lag = row or (0, 0, 0.0)
        elapsed = time.monotonic() - self._began
        return Figures(elapsed, events, processed, lag, self._rate(elapsed, events), self.kills)

    def _rate(self, now: float, events: int) -> float:
        self._seen.append((now, events))
        while now - self._seen[0][0] > TPS_WINDOW:
            self._seen.popleft()
        then, before = self._seen[0]
        return (events - before) / (now - then) if now > then else 0.0
