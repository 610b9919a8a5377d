"""The position at which a worker with a lease has read its batch.

A pooler in transaction mode may hide a failover. The worker's connection stays, but the server
behind it is a standby that lagged. The batch is open on it, but the worker's last writes may be
missing: a retried event would be lost when the worker finishes the batch. So each transaction that
writes for a batch, or asks about parked keys, first checks the position. If it is not the expected
one, the batch is lost (BatchLost) and is read again.

Transactional consumers in parts compare the position too: see transactional_parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.calls import consume
from pgqpy.errors import BatchLost

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers._async.careful import AsyncCareful
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Batch


class AsyncReadPosition:
    """The position of the open batch, as this worker has moved it."""

    def __init__(
        self, consumer: BaseConsumer, session: AsyncSession, careful: AsyncCareful
    ) -> None:
        self.enabled = consumer.lease is not None  # without, a failover ends the session
        self._session = session
        self._careful = careful
        self._base = 0  # pos_no, less the moves that careful.widened counts

    async def read(self, batch: Batch) -> None:
        """Note the position of a batch, before its events are read."""
        if self.enabled:
            with self._session.calls.running():
                found = await self._session.runner.run(consume.position(batch))
            if found is None:
                raise BatchLost(batch_id=batch.id)
            self._base = found - self._careful.widened

    def check(self, batch: Batch) -> tuple[Call[Any], ...]:
        """Return the call that a transaction for this batch begins with."""
        expected = self._base + self._careful.widened  # each widening moved the position
        return (consume.check_position(batch, expected),) if self.enabled else ()

    def moved(self) -> None:
        """Note that finish_part has moved the position."""
        self._base += 1
