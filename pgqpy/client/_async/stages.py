"""The part of the client for stages: the events of many transactions, released at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_TRANSACTION = "no transaction to stage: call it in `with client.transaction()`"


class AsyncStaging(AsyncBase):
    """Stages events. Needs the role pgq_writer."""

    async def open_stage(self, queue: str, writer: str, epoch: int | None = None) -> int | None:
        """Make this transaction a stage; return the stage's id. None: the epoch is committed.

        For parallel tasks that may be repeated. Consumers get none of the events that a task's
        transaction inserts into the queue before `commit_stage` names its stage.

        `writer` is the name of the writer, such as a Spark query's id. `epoch` is the number of
        what it writes now, greater each time; None: all, and never again.

        Raises:
            InvalidArgument: no transaction is open, or it is a stage of something else.
            QueueNotFound, QueueRefused: the queue refused.
        """
        async with self.runner.locked(), self.runner.settled():
            if await self.runner.is_alone():
                raise InvalidArgument(NO_TRANSACTION)
            return await self.runner.run(calls.produce.open_stage(queue, writer, epoch))

    async def commit_stage(
        self,
        queue: str,
        writer: str,
        epoch: int | None,
        stages: Iterable[int],
        events: int,
        fingerprint: int | None = None,
    ) -> int:
        """Release the events of these stages, all in one batch: 1. 0: it was done before.

        `stages` are the ids that `open_stage` returned, for the same writer and epoch, to the tasks
        whose transactions committed; `events` is the number of events that they inserted.
        `fingerprint` is a hash of the events that does not depend on their order, 64 bits with a
        sign: an epoch that is repeated must have the same. None: nothing is compared.

        Raises:
            InvalidArgument: a stage is named twice.
            StageLost: not all of these stages wait any more; nothing was released.
            StageLost: a fingerprint is given, and the epoch was committed with another one, or
                a later epoch was committed; nothing was released.
            QueueNotFound, QueueRefused: the queue refused.
        """
        return await self.runner.run(
            calls.produce.commit_stage(queue, writer, epoch, stages, events, fingerprint)
        )

    async def drop_stage(self, queue: str, writer: str) -> int:
        """Drop the stages of a writer that were not released; return how many."""
        return await self.runner.run(calls.produce.drop_stage(queue, writer))
