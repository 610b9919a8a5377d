# Generated from _async_read.py by tools/unasync.py: edit that file, not this one.
"""Reading a batch in bounded memory."""

from __future__ import annotations

from collections import abc
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import Cursor
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client._sync_base import Base, _ours
from pgqpy.records import Batch, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from psycopg.abc import Params

    from pgqpy.calls import Row
    from pgqpy.calls.read import Statement

# Half the cost of Event._make, which a million events notice.
_to_event: Callable[[Sequence[Any]], Event] = partial(tuple.__new__, Event)


def _event_row(_cursor: object) -> Callable[[Sequence[Any]], Event]:
    """psycopg's row factory for events."""
    return _to_event


class Reading(Base):
    """Reads batches."""

    def get_batch_events(
        self, batch: Batch | int, *, fetch_size: int = calls.read.FETCH_SIZE
    ) -> abc.Iterator[Event]:
        """Iterate over the events of a batch, by id, holding `fetch_size` of them at a time.

        A small batch is one SELECT. A large one is read through a cursor: inside a transaction through
        PGQ's get_batch_cursor; in autocommit through a cursor WITH HOLD, so that no transaction stays
        open while the caller works on the events. The cursor is closed when the iterator is.

        Args:
            batch: the batch or its id.
            fetch_size: events held by the client at a time.

        Raises:
            BatchNotFound: no such batch is open.

        PGQ get_batch_events, get_batch_cursor, pgq-contract 1.4.

            for event in client.get_batch_events(batch):
                print(event.id, event.type, event.json())
        """
        size = calls.read.fetch_size(fetch_size)
        batch_id = calls.batch_id(batch)
        if calls.read.fits(batch, size):
            events = self._read(batch_id, calls.read.short(size + 1), (batch_id,))
            if len(events) <= size:
                for event in events:
                    yield event
                return
            del events  # the ticks promised less than there is: start again with a cursor
        name = calls.read.cursor_name(batch_id)
        held = self._idle()
        more = True
        try:
            events = self._open(batch_id, name, size, held=held)
            while more:
                more = len(events) == size
                if not more:
                    # Before the last events are out: a rollback by their handler would take it away.
                    self._execute(calls.read.close(name))
                for event in events:
                    yield event
                if more:
                    events = self._read(batch_id, calls.read.fetch(name, size), prepare=False)
        finally:
            if more:
                self._abandon(name, held=held)

    def _open(self, batch_id: int, name: str, size: int, *, held: bool) -> list[Event]:
        if not held:
            return self._read(batch_id, calls.read.open_cursor(), (batch_id, name, size))
        while self._leftovers:
            self._abandon(self._leftovers.pop(), held=True)
        self._read(batch_id, calls.read.declare_held(name), (batch_id,), prepare=False)
        return self._read(batch_id, calls.read.fetch(name, size), prepare=False)

    def _abandon(self, name: str, *, held: bool) -> None:
        """Close a cursor whose reader stopped early, if the connection's state still allows it."""
        status = self._connection.info.transaction_status
        if status in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
            if held or status == TransactionStatus.INTRANS:
                # A rollback may have taken the cursor: closing what is gone would fail the transaction.
                if self._execute(calls.read.OPEN_CURSORS, (name,)):
                    self._execute(calls.read.close(name))
        elif held and status == TransactionStatus.INERROR:
            self._leftovers.add(name)  # it outlives the failed transaction: closed with the next cursor

    def _execute(self, query: Statement, params: Params | None = None) -> list[Row]:
        with self._cursor() as cursor:
            cursor.execute(query, params, prepare=False)
            return cursor.fetchall() if cursor.description else []

    def _read(
        self, batch_id: int, query: Statement, params: Params | None = None, *, prepare: bool | None = None
    ) -> list[Event]:
        try:
            with Cursor(self._connection, row_factory=_event_row) as cursor:
                cursor.execute(query, params, binary=True, prepare=prepare)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as exc:
            raise _ours(exc, "get_batch_events", {"batch_id": batch_id}) from exc
