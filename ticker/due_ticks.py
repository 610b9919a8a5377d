"""The step of the loop that ticks by PGQ's own rules: idle queues, and ticks that were missed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg

from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.statements import FIND_DUE, TICK_DUE
from pgqpy.ticker.tick import NOTHING, Failure, Ticked

if TYPE_CHECKING:
    from pgqpy.ticker.last_ticks import LastTicks
    from pgqpy.ticker.statements import Statements

RANGES = 4  # at most, in one period: with thousands of queues a round takes longer
TOGETHER = 16  # queues ticked in one transaction: a millisecond, so that events do not wait long


class DueTicks:
    """Ticks the due queues once a period, in small steps between two polls for events.

    A queue without events also needs a tick now and then, so that positions of consumers advance
    and tables can rotate. Queues created together are due together. A thousand ticks at once would
    delay the events of other queues: hence the steps.
    """

    def __init__(self, period: float) -> None:
        """Start the first round at once, and the next ones every `period` seconds."""
        self._period = period
        self._next = 0.0  # monotonic seconds
        self._ranges: list[tuple[bytes, bytes]] = []  # not yet searched in this round
        self._queues: list[str] = []  # found due, not yet ticked
        self._found: set[str] = set()  # in this round
        self.failing = Backoff()

    @property
    def working(self) -> bool:
        """Whether this round has another step."""
        return bool(self._queues or self._ranges)

    def is_due(self, now: float) -> bool:
        """Say whether a step would ask the server."""
        return self.working or now >= self._next

    def step(self, statements: Statements, last_ticks: LastTicks, *, now: float) -> Ticked:
        """Do the next step of a round, or start one; `now` is monotonic seconds. Only if it is due.

        Raises psycopg.Error, and ends the round, if the due queues cannot be read.
        """
        if not self.working:
            self._ranges = last_ticks.bounds()
            self._next = now + self._period * max(1.0, len(self._ranges) / RANGES)
            self._found = set()
        if not self._queues:
            self._find(statements, now)
        queues, self._queues = self._queues[:TOGETHER], self._queues[TOGETHER:]
        done = self._tick(statements, queues, now) if queues else NOTHING
        if not self.working:  # others are not due any more, or gone
            for queue in self.failing.keys() - self._found:
                del self.failing[queue]
        return done

    def _find(self, statements: Statements, now: float) -> None:
        """Read which queues of the next range are due."""
        (bounds, *others), self._ranges = self._ranges, []
        found = [row[0].decode() for row in statements.run(FIND_DUE, *bounds)]
        self._ranges = others
        self._found.update(found)
        self._queues = [queue for queue in found if not self.failing.pausing(queue, now)]

    def _tick(self, statements: Statements, queues: list[str], now: float) -> Ticked:
        """Tick queues in one transaction, or each in its own if that fails."""
        if not self.failing:
            try:
                return Ticked(tick_due(statements, queues))
            except psycopg.Error:
                if statements.connection.closed:
                    raise
        done = Ticked()
        for queue in queues:
            try:
                done.ticks += tick_due(statements, [queue])
                self.failing.succeeded(queue)
            except psycopg.Error as exc:
                if statements.connection.closed:
                    raise
                done.failures.append(Failure(queue, exc, self.failing.failed(queue, now)))
        return done


def tick_due(statements: Statements, queues: list[str]) -> list[tuple[str, str]]:
    """Tick those of the queues that are due, in one transaction; return (queue, tick id)."""
    rows = statements.run(TICK_DUE, json.dumps(queues, ensure_ascii=False).encode())
    return [(name.decode(), tick_id.decode()) for name, tick_id in rows if tick_id is not None]
