"""[Generated from _async/stalled.py by tools/unasync.py: edit that file, not this one.] The part of the client that handles consumers that are too far behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from pgqpy.calls.stalled import Policy
    from pgqpy.records import RotationTable, StalledInfo


class Stalled(Base):
    """Sets what happens to stalled consumers, finds them, attaches them again."""

    def set_stall_policy(
        self,
        queue: str,
        consumer: str,
        policy: Policy,
        *,
        after: calls.Interval | None = None,
        size: int | None = None,
    ) -> int:
        """Decide what happens when a consumer is so far behind that rotation waits for it.

        "warn": the ticker's log, doctor and metrics name it. "detach": rotation stops waiting, and
        calls for its events raise ConsumerDetached; its retried, dead and parked events stay.

        Args:
            queue: the queue.
            consumer: the consumer.
            policy: "warn", as at the beginning, or "detach".
            after: seconds or a timedelta: the age of the first tick that it has not finished.
            size: bytes of the queue's event tables. What comes first counts.

        Returns 1 if that changed, else 0. Raises ConsumerNotFound, InvalidArgument.

            client.set_stall_policy("orders", "reports", "detach", after=timedelta(days=2))
        """
        call = calls.stalled.set_stall_policy(queue, consumer, policy, after, size)
        return self.runner.run(call)

    def reattach_consumer(
        self, queue: str, consumer: str, *, from_earliest: bool = False
    ) -> int:
        """Attach a detached consumer again: it goes on where it was. Returns 0 if it is attached.

        If events after its position are gone, it raises RangeExpired, which names the earliest
        tick; with `from_earliest` the consumer goes on from there.
        """
        call = calls.stalled.reattach_consumer(queue, consumer, from_earliest=from_earliest)
        return self.runner.run(call)

    def get_stalled_info(self, queue: str | None = None) -> list[StalledInfo]:
        """Return the consumers that a rotation waits for, and those that are detached."""
        return self.runner.run(calls.stalled.get_stalled_info(queue))

    def get_rotation_info(self, queue: str) -> list[RotationTable]:
        """Return the event tables of a queue, and what keeps the next one from being truncated.

        Everybody may call it. Raises QueueNotFound.
        """
        return self.runner.run(calls.stalled.get_rotation_info(queue))
