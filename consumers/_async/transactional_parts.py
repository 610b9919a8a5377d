"""Exactly once with a transaction for each part of a batch, instead of one for the whole batch.

A batch of a million events in one transaction would be repeated from its beginning after a crash,
and would hold back vacuum while it lasts. So the batch is opened in a transaction of its own. Then
each part is handled in a transaction that finishes the part (G9).

A part was read before its transaction began. So the transaction finishes it only if the position is
still the one that it was read at: else another session has handled some of its events. So does a
worker that lost its batch: finishing is refused, and the transaction is rolled back (G5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import consume
from pgqpy.consumers import clock
from pgqpy.consumers._async import savepoint
from pgqpy.consumers._async.part_reader import AsyncPartReader
from pgqpy.consumers._async.plain import OPEN_SETTINGS, AsyncPlainLoop
from pgqpy.consumers._async.transactional import AsyncTransactionalLoop

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers._async.batch import AsyncOpenBatch
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Event


class AsyncTransactionalParts(AsyncTransactionalLoop):
    """One transaction a part: the handlers, finish_part or finish_batch, COMMIT."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.open_settings = OPEN_SETTINGS if self.by_event else ()
        self._reader: AsyncPartReader | None = None
        self._events_of_part: list[Event] = []
        self._finished = False  # the part that was read last
        self._position: int | None = None  # at which it was read
        self._sign_at = 0.0  # of life, by finishing the part: clock.now()

    async def run(self) -> None:
        """Work until `stop`; the part at hand is then rolled back unless all of it was handled."""
        try:
            await super().run()
        finally:
            await self._close_reader()

    async def before_transaction(self) -> bool:
        """Read the next part, of the open batch or of the next one; False if there is none."""
        if self._reader is not None and (
            self._reader.last or not self._finished or self._reader.size != self.careful.part_size
        ):
            await self._close_reader()
        if self._reader is None:
            _, info = await self.open_next()
            if info is None:
                return False
            self._position = await self.session.runner.run(consume.position(info))
            size = self.careful.part_size or 1  # a worker learns it with the batch that it takes
            self._reader = AsyncPartReader(self.session, info, size)
        self.info = self._reader.info
        self._finished = False
        self._events_of_part = await self._reader.next()
        return await self.ends_confirmed(self.info, self._events_of_part)

    async def open(self) -> AsyncOpenBatch | None:
        """Return the part that was read."""
        if self.info is None:
            return None
        mark = savepoint.mark_transaction_call(self.session.role)
        await self.send(mark, savepoint.NO_LOCK_TIMEOUT)
        return self.make_batch(self.info, self._events_of_part)

    async def handle(self, batch: AsyncOpenBatch) -> bool:
        """Call the handler for a part, or make its one event dead."""
        return self.give_up(batch, self._events_of_part) or await super().handle(batch)

    def finish_calls(self, batch: AsyncOpenBatch) -> list[Call[bool]]:
        """Return the calls that finish the part, and the batch after its last part."""
        whole = super().finish_calls(batch)
        if not self._events_of_part:
            return whole  # the batch has no event
        up_to = self._events_of_part[-1].id
        self._sign_at = clock.now()
        part = batch.finish_part(up_to, position=self._position)
        return [part, *whole] if self._at_end else [part]

    async def batch_finished(self, *, whole: bool = True) -> None:
        """Count the part. If that widens the parts, the position moves: read the rest anew."""
        self._finished = True
        self.held.part_finished(self._sign_at)
        self._position = None if self._position is None else self._position + 1
        widened = self.careful.widened
        await super().batch_finished(whole=whole and self._at_end)
        if self.careful.widened > widened:
            await self._close_reader()

    @property
    def _at_end(self) -> bool:
        """Whether the part at hand is the last one of its batch."""
        return self._reader is not None and self._reader.last

    async def _close_reader(self) -> None:
        if self._reader is not None:
            await self._reader.aclose()
            self._reader = None


def kind_of_loop(
    consumer: BaseConsumer, session: AsyncSession
) -> type[AsyncPlainLoop | AsyncTransactionalLoop]:
    """Return the class of the loop for the consumer; the extension pgq has no parts."""
    if not consumer.is_transactional:
        return AsyncPlainLoop
    return AsyncTransactionalLoop if session.extension else AsyncTransactionalParts
