"""[Generated from _async/read_position.py by tools/unasync.py: edit that file, not this one.] The position at which a worker with a lease has read its batch.

A pooler in transaction mode may hide a failover: the worker's connection to the pooler stays, and
behind it is a standby that lagged. The batch is open there, too, but what the worker wrote for it
may be lost. Then a retried event would come no more, and the worker would finish the batch without
it. So each transaction that writes for a batch first checks that the position is where this worker
has moved it. Else the batch is lost, and read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgqpy.calls import consume
from pgqpy.errors import BatchLost

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers._sync.careful import Careful
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Batch


class ReadPosition:
    """The position of the open batch, as this worker has moved it."""

    def __init__(
        self, consumer: BaseConsumer, session: Session, careful: Careful
    ) -> None:
        self.checks = consumer.lease is not None  # else the end of the session tells
        self._session = session
        self._careful = careful
        self._start = 0  # where the careful mode would have found it

    def read(self, batch: Batch) -> None:
        """Note the position of a batch, before its events are read."""
        if self.checks:
            found = self._session.runner.run(consume.position(batch))
            if found is None:
                raise BatchLost(batch_id=batch.id)
            self._start = found - self._careful.widened

    def check(self, batch: Batch) -> tuple[Call[Any], ...]:
        """Return the call that a transaction for this batch begins with."""
        now = self._start + self._careful.widened  # each of them moves the position
        return (consume.check_position(batch, now),) if self.checks else ()

    def moved(self) -> None:
        """Note that finish_part has moved the position."""
        self._start += 1
