"""[Generated from _async/transactional_parts.py by tools/unasync.py: edit that file, not this one.] Exactly once with a transaction for each part of a batch, instead of one for the whole batch.

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
from pgqpy.consumers._sync import savepoint
from pgqpy.consumers._sync.part_reader import PartReader
from pgqpy.consumers._sync.plain import OPEN_SETTINGS, PlainLoop
from pgqpy.consumers._sync.transactional import TransactionalLoop

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers._sync.batch import OpenBatch
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Event


class TransactionalParts(TransactionalLoop):
    """One transaction a part: the handlers, finish_part or finish_batch, COMMIT."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.open_settings = OPEN_SETTINGS if self.by_event else ()
        self._reader: PartReader | None = None
        self._events_of_part: list[Event] = []
        self._finished = False  # the part that was read last
        self._position: int | None = None  # at which it was read
        self._sign_at = 0.0  # of life, by finishing the part: clock.now()

    def run(self) -> None:
        """Work until `stop`; the part at hand is then rolled back unless all of it was handled."""
        try:
            super().run()
        finally:
            self._close_reader()

    def before_transaction(self) -> bool:
        """Read the next part, of the open batch or of the next one; False if there is none."""
        if self._reader is not None and (
            self._reader.last or not self._finished or self._reader.size != self.careful.part_size
        ):
            self._close_reader()
        if self._reader is None:
            _, info = self.open_next()
            if info is None:
                return False
            self._position = self.session.runner.run(consume.position(info))
            size = self.careful.part_size or 1  # a worker learns it with the batch that it takes
            self._reader = PartReader(self.session, info, size)
        self.info = self._reader.info
        self._finished = False
        self._events_of_part = self._reader.next()
        return self.ends_confirmed(self.info, self._events_of_part)

    def open(self) -> OpenBatch | None:
        """Return the part that was read."""
        if self.info is None:
            return None
        mark = savepoint.mark_transaction_call(self.session.role)
        self.send(mark, savepoint.NO_LOCK_TIMEOUT)
        return self.make_batch(self.info, self._events_of_part)

    def handle(self, batch: OpenBatch) -> bool:
        """Call the handler for a part, or make its one event dead."""
        return self.give_up(batch, self._events_of_part) or super().handle(batch)

    def finish_calls(self, batch: OpenBatch) -> list[Call[bool]]:
        """Return the calls that finish the part, and the batch after its last part."""
        whole = super().finish_calls(batch)
        if not self._events_of_part:
            return whole  # the batch has no event
        up_to = self._events_of_part[-1].id
        self._sign_at = clock.now()
        part = batch.finish_part(up_to, position=self._position)
        return [part, *whole] if self._at_end else [part]

    def batch_finished(self, *, whole: bool = True) -> None:
        """Count the part. If that widens the parts, the position moves: read the rest anew."""
        self._finished = True
        self.held.part_finished(self._sign_at)
        self._position = None if self._position is None else self._position + 1
        widened = self.careful.widened
        super().batch_finished(whole=whole and self._at_end)
        if self.careful.widened > widened:
            self._close_reader()

    @property
    def _at_end(self) -> bool:
        """Whether the part at hand is the last one of its batch."""
        return self._reader is not None and self._reader.last

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def kind_of_loop(
    consumer: BaseConsumer, session: Session
) -> type[PlainLoop | TransactionalLoop]:
    """Return the class of the loop for the consumer; the extension pgq has no parts."""
    if not consumer.is_transactional:
        return PlainLoop
    return TransactionalLoop if session.extension else TransactionalParts
