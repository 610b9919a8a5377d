"""The duty that ticks queues by PGQ's own rules: idle ticks, and whatever the loop missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from pgqpy.errors import PgqError
from pgqpy.ticker.tick import Failure, Ticked

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.ticker.backoff import Backoff


def tick_due(client: Client, failing: Backoff, *, now: float) -> Ticked:
    """Tick the queues that PGQ's ticker would tick now; `now` is monotonic seconds.

    A queue without events gets a tick now and then too, so that its consumers' positions move on
    and rotation is not held back. One that fails is left alone for a while, like in `tick`.
    """
    ticks: list[tuple[str, str]] = []
    failures: list[Failure] = []
    for queue in client.ticker_due():
        if failing.pausing(queue, now):
            continue
        try:
            tick_id = client.ticker(queue)
        except (psycopg.Error, PgqError) as exc:
            if client.connection.closed:
                raise
            failures.append(Failure(queue, exc, failing.failed(queue, now)))
        else:
            if tick_id is not None:
                ticks.append((queue, str(tick_id)))
    return Ticked(ticks, failures)
