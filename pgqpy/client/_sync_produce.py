# Generated from _async_produce.py by tools/unasync.py: edit that file, not this one.
"""The client of who inserts events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from pgqpy import calls
from pgqpy.client._sync_base import Base, _ours
from pgqpy.client._iterables import each
from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterable
    from datetime import datetime

    from psycopg import Copy

    from pgqpy.calls import Payload


class Producing(Base):
    """Inserts events. Needs the role pgq_writer."""

    def insert_event(  # noqa: PLR0913  # the columns of an event
        self,
        queue: str,
        type: str | None,  # noqa: A002  # the event's own field name
        data: Payload,
        extra1: Payload = None,
        extra2: Payload = None,
        extra3: Payload = None,
        extra4: Payload = None,
    ) -> int:
        """Insert one event and return its id. It becomes visible when the transaction commits.

        Args:
            queue: the queue's name.
            type: what kind of event it is, in the application's words.
            data: str, UTF-8 bytes, None, or anything JSON can hold, which is stored as JSON.
            extra1: like data, free for the application, as are extra2, extra3 and extra4.

        Raises:
            InvalidEvent: a field cannot be stored; nothing was sent.
            QueueNotFound, InsertDisabled, TransactionLimitExceeded: the queue refused.

        PGQ insert_event, pgq-contract 1.3.

            client.insert_event("orders", "paid", {"order": 17, "amount": "12.50"})
        """
        limit = self._payload_limit
        call = calls.produce.insert_event(queue, type, data, extra1, extra2, extra3, extra4, limit=limit)
        return self._run(call)

    def insert_events(self, queue: str, events: Iterable[object] | Iterable[object]) -> int:
        """Insert any number of events and return how many. All or none, in bounded memory, by COPY.

        Args:
            queue: the queue's name.
            events: an iterable of events, each (type, data[, extra1..4]), a dict with these keys, or an
                object with these attributes, such as an Event.

        Raises:
            InvalidEvent: an event cannot be stored; `.index` says which, from 0. Nothing was inserted,
                and a transaction of the application goes on.
            QueueNotFound, InsertDisabled: the queue refused.

        PGQ current_event_table, pgq-contract 1.3.

            client.insert_events("orders", (("paid", row) for row in rows))
        """
        if self._idle():
            with self._connection.transaction():
                self._run(calls.produce.transaction_id())
                return self._copy(queue, events)
        # This statement begins the application's transaction if none is open, so that transaction()
        # below is a savepoint and never commits.
        self._run(calls.produce.transaction_id())
        with self._connection.transaction():
            return self._copy(queue, events)

    def _copy(self, queue: str, events: Iterable[object] | Iterable[object]) -> int:
        table = self._run(calls.produce.current_event_table(queue))
        try:
            with self._cursor() as cursor, cursor.copy(calls.bulk.copy_into(table)) as copy:
                return self._write(copy, events)
        except psycopg.Error as exc:
            raise _ours(exc, "current_event_table", {"queue": queue}) from exc

    def _write(self, copy: Copy, events: Iterable[object] | Iterable[object]) -> int:
        index = -1
        buffer = bytearray()
        for event in each(events):
            index += 1
            try:
                buffer += calls.bulk.line(event, self._payload_limit)
            except InvalidEvent as exc:
                raise calls.bulk.at(index, exc) from exc
            if len(buffer) >= calls.bulk.BUFFER:
                copy.write(bytes(buffer))
                buffer.clear()
        if buffer:
            copy.write(bytes(buffer))
        return index + 1

    def insert_event_raw(  # noqa: PLR0913  # the columns of an event
        self,
        queue: str,
        id: int | None,  # noqa: A002  # the event's own field name
        time: datetime | None,
        owner: int | None,
        retry: int | None,
        type: str | None,  # noqa: A002  # the event's own field name
        data: Payload,
        extra1: Payload = None,
        extra2: Payload = None,
        extra3: Payload = None,
        extra4: Payload = None,
    ) -> int:
        """Insert one event with every column in the caller's hand; return its id. Needs pgq_admin.

        Args:
            queue: the queue's name.
            id: None takes the next of the sequence.
            time: None is now.
            owner: None is every consumer; else only the subscription with this sub_id sees it.
            retry: how often it was retried; None is never.
            type: as in insert_event, as are data and extra1 to extra4.

        Raises:
            InvalidEvent, QueueNotFound, InsertDisabled, TransactionLimitExceeded.

        PGQ insert_event_raw, pgq-contract 1.3.
        """
        columns = (id, time, owner, retry, type, data, extra1, extra2, extra3, extra4)
        call = calls.produce.insert_event_raw(queue, *columns, limit=self._payload_limit)
        return self._run(call)

    def current_event_table(self, queue: str) -> str:
        """Name the table that takes the queue's events now, ready to stand in SQL.

        Valid until the transaction ends. `insert_events` is the easier way to load many.

        Raises:
            QueueNotFound, InsertDisabled.

        PGQ current_event_table, pgq-contract 1.3.
        """
        return self._run(calls.produce.current_event_table(queue))
