"""The duty that everything waits for: tick the queues that have something new."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg

from pgqpy.ticker.state import UNKNOWN
from pgqpy.ticker.statements import TICK, TURN, Row, Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.ticker.state import TickState


class Failure(NamedTuple):
    """A queue that could not be ticked, why, and how often in a row that was so."""

    queue: str
    error: Exception
    times: int


class Ticked(NamedTuple):
    """What one look did: ticks as (queue, tick id), failures, and queues that work again."""

    ticks: Sequence[tuple[str, str]] = ()
    failures: Sequence[Failure] = ()
    recovered: Sequence[str] = ()


NOTHING = Ticked()
TRUE = b"t"


def tick(statements: Statements, state: TickState, *, now: float) -> Ticked:
    """Look once and tick every queue that is due; `now` is monotonic seconds.

    All of them in one transaction, as long as that goes well. If one fails, each is ticked by
    itself, and the one that fails is left alone for a while; what concerns all of them (no
    connection, no schema) is raised.
    """
    known = state.known_snapshot(now)
    rows, together = _turn(statements, state, known)
    state.snapshot = rows[0][0]
    if rows[0][1] is None:
        # Nobody is due, and so nobody fails any more if all was to be seen.
        if known == UNKNOWN:
            state.failing.keep(())
        return NOTHING
    if together:
        return Ticked(_ticked_together(state, rows))
    if known == UNKNOWN:  # this look shows all that is due, and what fails is due
        state.failing.keep(row[1].decode() for row in rows if row[4] == TRUE)
    return _tick_apart(statements, state, rows, now)


def _turn(statements: Statements, state: TickState, known: bytes) -> tuple[list[Row], bool]:
    """Return the rows of a look, and whether it ticked."""
    if not state.failing:
        try:
            return statements.run(TURN, known, state.watch.text(), b"true"), True
        except psycopg.Error:
            if statements.connection.closed:
                raise
    return statements.run(TURN, known, state.watch.text(), b"false"), False


def _ticked_together(state: TickState, rows: list[Row]) -> list[tuple[str, str]]:
    """Note what a look ticked, and return it."""
    ticks = []
    for _, name, seq, writers, _, tick_id in rows:
        queue = name.decode()
        if tick_id is not None:
            state.watch.ticked(queue, seq, writers)
            ticks.append((queue, tick_id.decode()))
        elif seq is None:  # dropped or paused
            state.watch.forget(queue)
    return ticks


def _tick_apart(statements: Statements, state: TickState, rows: list[Row], now: float) -> Ticked:
    """Tick each queue in a transaction of its own."""
    ticks: list[tuple[str, str]] = []
    failures: list[Failure] = []
    recovered: list[str] = []
    for row in rows:
        queue, seq, due = row[1].decode(), row[2], row[4] == TRUE
        if seq is None:
            state.watch.forget(queue)
        if not due or state.failing.pausing(queue, now):
            continue
        try:
            made = statements.run(TICK, queue.encode())
        except psycopg.Error as exc:
            if statements.connection.closed:
                raise
            failures.append(Failure(queue, exc, state.failing.failed(queue, now)))
            continue
        if made:
            state.watch.ticked(queue, seq, row[3])
            ticks.append((queue, made[0][0].decode()))
        if state.failing.succeeded(queue):
            recovered.append(queue)
    return Ticked(ticks, failures, recovered)
