"""The duty that everything waits for: tick the queues that have something new."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg

from pgqpy.ticker.state import UNKNOWN
from pgqpy.ticker.statements import TICK, TURN, Row, Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.ticker.state import TickState


class Ticked(NamedTuple):
    """What one look did: ticks as (queue, tick id), failures, and queues that work again."""

    ticks: Sequence[tuple[str, int]] = ()
    failures: Sequence[tuple[str, Exception]] = ()
    recovered: Sequence[str] = ()


NOTHING = Ticked()


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
        rows = []
    if together:
        return Ticked([_note(state, row, row[5]) for row in rows if _is_ticked(state, row)])
    if known == UNKNOWN:  # this look shows all that is due, and what fails is due
        state.failing.keep(row[1] for row in rows)
    return _tick_apart(statements, state, rows, now)


def _turn(statements: Statements, state: TickState, known: str) -> tuple[list[Row], bool]:
    """Return the rows of a look, and whether it ticked."""
    if not state.failing:
        try:
            return statements.run(TURN, known, state.watch.text(), "true"), True
        except psycopg.Error:
            if statements.connection.closed:
                raise
    return statements.run(TURN, known, state.watch.text(), "false"), False


def _is_ticked(state: TickState, row: Row) -> bool:
    if row[2] is None:  # dropped or paused
        state.watch.forget(row[1])
    return row[5] is not None


def _note(state: TickState, row: Row, tick_id: str) -> tuple[str, int]:
    _, queue, seq, writers, _, _ = row
    state.watch.ticked(queue, int(seq), writers)
    return queue, int(tick_id)


def _tick_apart(statements: Statements, state: TickState, rows: list[Row], now: float) -> Ticked:
    """Tick each queue in a transaction of its own."""
    ticks: list[tuple[str, int]] = []
    failures: list[tuple[str, Exception]] = []
    recovered: list[str] = []
    for row in rows:
        queue, seq, due = row[1], row[2], row[4] == "t"
        if seq is None:
            state.watch.forget(queue)
        if not due or state.failing.pausing(queue, now):
            continue
        try:
            made = statements.run(TICK, queue)
        except psycopg.Error as exc:
            if statements.connection.closed:
                raise
            state.failing.failed(queue, now)
            failures.append((queue, exc))
            continue
        if made:
            ticks.append(_note(state, row, made[0][0]))
        if state.failing.succeeded(queue):
            recovered.append(queue)
    return Ticked(ticks, failures, recovered)
