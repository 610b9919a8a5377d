"""The duty that ticks queues by PGQ's own rules: idle ticks, and whatever the loop missed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg

from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.statements import DUE, TICK_DUE
from pgqpy.ticker.tick import NOTHING, Failure, Ticked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.ticker.statements import Row, Statements
    from pgqpy.ticker.watch import Watch

SLICES = 4  # asked in a period at most: with thousands of queues a round takes longer
TOGETHER = 16  # queues ticked in one transaction: a millisecond, so that events do not wait long


class Due:
    """Goes round all queues once a period, a step at a time, between looks for events.

    A queue without events gets a tick now and then too, so that its consumers' positions move on
    and rotation is not held back. Queues that were made together are due together, and a thousand
    ticks at once would keep the events of the others waiting: hence the steps.
    """

    def __init__(self, period: float) -> None:
        """Go round every `period` seconds, at once for the first time."""
        self._period = period
        self._next = 0.0  # monotonic seconds
        self._ranges: list[tuple[bytes, bytes]] = []  # to ask of
        self._queues: list[str] = []  # to tick
        self._found: set[str] = set()  # in this round
        self.failing = Backoff()

    @property
    def working(self) -> bool:
        """Say whether this round has another step."""
        return bool(self._queues or self._ranges)

    def step(self, statements: Statements, watch: Watch, *, now: float) -> Ticked:
        """Begin a round if it is time, or go on with it; `now` is monotonic seconds.

        Raises psycopg.Error if the queues can't be asked for, and gives this round up.
        """
        if not self.working:
            if now < self._next:
                return NOTHING
            self._ranges = watch.ranges()
            self._next = now + self._period * max(1.0, len(self._ranges) / SLICES)
            self._found = set()
        if not self._queues:
            self._ask(statements, now)
        queues, self._queues = self._queues[:TOGETHER], self._queues[TOGETHER:]
        done = self._tick(statements, queues, now) if queues else NOTHING
        if not self.working:
            self.failing.keep(self._found)
        return done

    def _ask(self, statements: Statements, now: float) -> None:
        """Ask which queues of the next range are due."""
        ranges, self._ranges = self._ranges, []
        found = [row[0].decode() for row in statements.run(DUE, *ranges[0])]
        self._ranges = ranges[1:]
        self._found.update(found)
        self._queues = [queue for queue in found if not self.failing.pausing(queue, now)]

    def _tick(self, statements: Statements, queues: Sequence[str], now: float) -> Ticked:
        """Tick these together, or each in a transaction of its own if that fails."""
        if not self.failing:
            try:
                return Ticked(ticks_of(statements.run(TICK_DUE, as_json(queues))))
            except psycopg.Error:
                if statements.connection.closed:
                    raise
        ticks: list[tuple[str, str]] = []
        failures: list[Failure] = []
        for queue in queues:
            try:
                ticks += ticks_of(statements.run(TICK_DUE, as_json([queue])))
                self.failing.succeeded(queue)
            except psycopg.Error as exc:
                if statements.connection.closed:
                    raise
                failures.append(Failure(queue, exc, self.failing.failed(queue, now)))
        return Ticked(ticks, failures)


def as_json(queues: Sequence[str]) -> bytes:
    """Return the parameter of TICK_DUE."""
    return json.dumps(queues, ensure_ascii=False).encode()


def ticks_of(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the ticks that were made, as (queue, tick id)."""
    return [(name.decode(), tick_id.decode()) for name, tick_id in rows if tick_id is not None]
