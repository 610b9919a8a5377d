"""Exactly once for a worker of a shared consumer, with a transaction for each of its batches.

The batch is taken in a transaction of its own: taking locks the consumer, and the other workers
would wait for the end of the handlers. finish_batch refuses a batch that another worker has taken
over meanwhile, and then the transaction is rolled back (G5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.consumers._async import savepoint
from pgqpy.consumers._async.plain import AsyncPlainLoop
from pgqpy.consumers._async.transactional import AsyncTransactionalLoop
from pgqpy.consumers._async.transactional_parts import AsyncTransactionalParts

if TYPE_CHECKING:
    from pgqpy.consumers._async.batch import AsyncOpenBatch
    from pgqpy.consumers._async.careful import AsyncCareful
    from pgqpy.consumers.settings import BaseConsumer


class AsyncTransactionalWorker(AsyncTransactionalLoop):
    """Take a batch; then one transaction: the handlers, finish_batch, COMMIT."""

    async def run(self) -> None:
        """Work until `stop`, or until parts are wanted because a worker died in the batch."""
        while not self.stop.is_set and self.careful.part_size is None:
            if not await self.process_next() and self.careful.part_size is None:
                await self.wait()

    async def before_transaction(self) -> bool:
        """Take a batch; False if there is none."""
        _, self.info = await self.open_next()
        if self.careful.part_size is not None:
            self.info = None  # the loop for parts gets it again
        return self.info is not None

    async def open(self) -> AsyncOpenBatch | None:
        """Return the batch that was taken."""
        if self.info is None:
            return None
        mark = savepoint.mark_transaction_call(self.session.role)
        await self.send(mark, savepoint.NO_LOCK_TIMEOUT)
        return self.make_batch(self.info)


def kind_of_loop(
    consumer: BaseConsumer, careful: AsyncCareful
) -> type[AsyncPlainLoop | AsyncTransactionalLoop]:
    """Return the class of the loop for the consumer, which may want whole batches or parts."""
    if not consumer.transactional:
        return AsyncPlainLoop
    if careful.part_size is not None:
        return AsyncTransactionalParts
    return AsyncTransactionalWorker if consumer.has_workers else AsyncTransactionalLoop
