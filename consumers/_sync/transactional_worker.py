"""[Generated from _async/transactional_worker.py by tools/unasync.py: edit that file, not this one.] Exactly once for a worker of a shared consumer, with a transaction for each of its batches.

The batch is taken in a transaction of its own: taking locks the consumer, and the other workers
would wait for the end of the handlers. finish_batch refuses a batch that another worker has taken
over meanwhile, and then the transaction is rolled back (G5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.consumers._sync import savepoint
from pgqpy.consumers._sync.plain import PlainLoop
from pgqpy.consumers._sync.transactional import TransactionalLoop
from pgqpy.consumers._sync.transactional_parts import TransactionalParts

if TYPE_CHECKING:
    from pgqpy.consumers._sync.batch import OpenBatch
    from pgqpy.consumers._sync.careful import Careful
    from pgqpy.consumers.settings import BaseConsumer


class TransactionalWorker(TransactionalLoop):
    """Take a batch; then one transaction: the handlers, finish_batch, COMMIT."""

    def run(self) -> None:
        """Work until `stop`, or until parts are wanted because a worker died in the batch."""
        while not self.stop.is_set and self.careful.part_size is None:
            if not self.process_next() and self.careful.part_size is None:
                self.wait()

    def before_transaction(self) -> bool:
        """Take a batch; False if there is none."""
        _, self.info = self.open_next()
        if self.careful.part_size is not None:
            self.info = None  # the loop for parts gets it again
        return self.info is not None

    def open(self) -> OpenBatch | None:
        """Return the batch that was taken."""
        if self.info is None:
            return None
        mark = savepoint.mark_transaction_call(self.session.role)
        self.send(mark, savepoint.NO_LOCK_TIMEOUT)
        return self.make_batch(self.info)


def kind_of_loop(
    consumer: BaseConsumer, careful: Careful
) -> type[PlainLoop | TransactionalLoop]:
    """Return the class of the loop for the consumer, which may want whole batches or parts."""
    if not consumer.transactional:
        return PlainLoop
    if careful.part_size is not None:
        return TransactionalParts
    return TransactionalWorker if consumer.has_workers else TransactionalLoop
