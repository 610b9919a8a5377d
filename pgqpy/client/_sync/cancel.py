"""[Generated from _async/cancel.py by tools/unasync.py: edit that file, not this one.] The part of the client that hides events from consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from pgqpy.calls.cancel import Events
    from pgqpy.records import Cancellation


class Cancelling(Base):
    """Cancels and skips events."""

    def cancel_event(self, queue: str, events: Events) -> list[Cancellation]:
        """Hide events from all consumers that have not had them; say what happened for each.

        `events` are Events or ids, or one of them. Copies that wait for a consumer, in its retry
        queue or parked, are removed. Open batches do not change. Needs the role pgq_writer.

        Consumers of the queue wait until the transaction ends, so commit at once. The call waits
        for a consumer that opens or finishes a batch just now; `lock_timeout` limits that. Raises
        QueueNotFound, DatabaseRestored.

            told = client.cancel_event("orders", [17, 18])
            late = [each for each in told if each.state == "delivered"]
        """
        return self.runner.run(calls.cancel.cancel_event(queue, events))

    def skip_event(self, queue: str, consumer: str, events: Events) -> list[Cancellation]:
        """Hide events from one consumer, if it has not had them. Needs the role pgq_reader.

        As `cancel_event`. Raises ConsumerNotFound, WrongMode, DatabaseRestored.
        """
        return self.runner.run(calls.cancel.skip_event(queue, consumer, events))
