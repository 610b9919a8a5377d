"""What the live view shows: read from the database, a few times a second."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.demo.balances import CONSUMER, QUEUE

if TYPE_CHECKING:
    from psycopg import Connection

SPAN = 2.0  # seconds that tps is the average of
LOOK = """
    select pgq.seq_getval(q.queue_event_seq),
           (select coalesce(sum(events), 0)::bigint from finished_batch),
           extract(epoch from c.lag)::float8
      from pgq.queue q, pgq.get_consumer_info(%s, %s) c
     where q.queue_name = %s
"""


class Figures(NamedTuple):
    """How far the demo is."""

    elapsed: float  # seconds since pgbench began
    events: int  # inserted
    processed: int
    lag: float  # seconds
    tps: float  # transactions, each with its event, a second
    kills: int


class Gauge:
    """Reads the figures of a running demo."""

    def __init__(self, connection: Connection[Any]) -> None:
        """Count time from now; `connection` is in autocommit, with the demo's search_path."""
        self._connection = connection
        self._began = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque()
        self.kills = 0

    def read(self) -> Figures:
        """Look once."""
        row = self._connection.execute(LOOK, [QUEUE, CONSUMER, QUEUE]).fetchone()
        events, processed, lag = row or (0, 0, 0.0)
        elapsed = time.monotonic() - self._began
        return Figures(elapsed, events, processed, lag, self._rate(elapsed, events), self.kills)

    def _rate(self, now: float, events: int) -> float:
        self._seen.append((now, events))
        while now - self._seen[0][0] > SPAN:
            self._seen.popleft()
        then, before = self._seen[0]
        return (events - before) / (now - then) if now > then else 0.0
