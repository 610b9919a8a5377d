"""The duty that everything waits for: tick the queues that have something new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from pgqpy.ticker.statements import LOOK, TICK, WRITERS
from pgqpy.ticker.watch import NOBODY, Writers, by_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection, Cursor

    from pgqpy.ticker.state import TickState

CHUNK = 50  # queues ticked by one transaction: the first waits for the last


class Ticked(NamedTuple):
    """What one look did: ticks as (queue, tick id), failures, and queues that work again."""

    ticks: Sequence[tuple[str, int]] = ()
    failures: Sequence[tuple[str, Exception]] = ()
    recovered: Sequence[str] = ()


NOTHING = Ticked()


def tick(connection: Connection[Any], state: TickState, *, now: float) -> Ticked:
    """Look once and tick every queue that is due; `now` is monotonic seconds.

    The connection is in autocommit mode. A queue that fails is among the failures and left alone
    for a while; what concerns all of them (no connection, no schema) is raised.

    The order of the three statements matters: first the sequences, then who is still open, then
    the ticks' snapshots. A producer that took an id before the first and is not open at the
    second has ended, so the tick sees it; one that is open is remembered.
    """
    with connection.cursor() as cursor:
        snapshot, activity = _look(cursor, state.known_snapshot(now))
        if activity is None:
            return NOTHING
        moved = [queue for queue in state.watch.moved(activity)]
        suspects = [q for q in {*moved, *state.watch.waiting()} if not state.failing.pausing(q, now)]
        writers = _writers(cursor, suspects)
        due = sorted({*moved, *state.watch.ended(writers)}.intersection(suspects))
        ticks, failures = _tick_all(cursor, due)
        state.snapshot = snapshot
    for queue, _ in ticks:
        state.watch.ticked(queue, activity[queue], writers.get(queue, NOBODY))
    return Ticked(ticks, failures, _settle(state, activity, ticks, failures, now))


def _look(cursor: Cursor[Any], known: str) -> tuple[str, dict[str, int] | None]:
    """Return the snapshot, and every queue's last event id unless the snapshot is the known one."""
    rows = cursor.execute(LOOK, [known], prepare=True).fetchall()
    snapshot = rows[0][0]
    if snapshot == known:
        return snapshot, None
    return snapshot, {queue: seq for _, queue, seq in rows if queue is not None}


def _writers(cursor: Cursor[Any], queues: list[str]) -> dict[str, Writers]:
    if not queues:
        return {}
    return by_queue(cursor.execute(WRITERS, [queues], prepare=True).fetchall())


def _tick_all(
    cursor: Cursor[Any], queues: list[str]
) -> tuple[list[tuple[str, int]], list[tuple[str, psycopg.Error]]]:
    """Tick the queues, many in a transaction; one by one those among which one fails."""
    ticks: list[tuple[str, int]] = []
    failures: list[tuple[str, psycopg.Error]] = []
    for first in range(0, len(queues), CHUNK):
        chunk = queues[first : first + CHUNK]
        try:
            ticks += _tick_together(cursor, chunk)
        except psycopg.Error as exc:
            if cursor.connection.closed:
                raise
            if len(chunk) == 1:
                failures.append((chunk[0], exc))
                continue
            for queue in chunk:
                made, failed = _tick_all(cursor, [queue])
                ticks += made
                failures += failed
    return ticks, failures


def _tick_together(cursor: Cursor[Any], queues: list[str]) -> list[tuple[str, int]]:
    return cursor.execute(TICK, [queues], prepare=True).fetchall()


def _settle(
    state: TickState,
    activity: dict[str, int],
    ticks: list[tuple[str, int]],
    failures: list[tuple[str, psycopg.Error]],
    now: float,
) -> list[str]:
    """Count failures and successes; return the queues that failed before and do not any more."""
    for queue, _ in failures:
        state.failing.failed(queue, now)
    if not state.failing:
        return []
    for queue in state.failing.names():
        if queue not in activity:  # dropped or paused: nothing that could fail
            state.failing.succeeded(queue)
    return [queue for queue, _ in ticks if state.failing.succeeded(queue)]
