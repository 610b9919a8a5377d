"""[Generated from _async/produce.py by tools/unasync.py: edit that file, not this one.] The part of the client for producers: inserting events, and taking them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from psycopg import Rollback
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.calls.bulk import Load
from pgqpy.client._sync.base import Base
from pgqpy.client._sync.runner import close, inner_transaction
from pgqpy.client._rows import in_lists
from pgqpy.client.opening import check_encoding
from pgqpy.sqlstates import translated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from psycopg import Copy

    from pgqpy.calls import Interval, Payload
    from pgqpy.calls.bulk import Piece
    from pgqpy.calls.payload import Dataclass
    from pgqpy.client._sync.runner import CallOrigin
    from pgqpy.client._rows import Events
    from pgqpy.records import Cancellation, DelayedEvent, InsertedOnce
    from pgqpy.typed_events import TypedEvent


class Producing(Base):
    """Inserts events, cancels and skips them, lists delayed ones. Needs the role pgq_writer."""

    def insert_event(
        self,
        queue: str,
        type: str | None,
        data: Payload,
        extra1: Payload = None,
        extra2: Payload = None,
        extra3: Payload = None,
        extra4: Payload = None,
        *,
        delay: Interval | None = None,
        deliver_at: datetime | None = None,
        dedup_key: str | None = None,
        dedup_for: Interval | None = None,
    ) -> int:
        """Insert one event and return its id. It becomes visible when the transaction commits.

        `type` is the kind of event, in the application's words. `data` is str, UTF-8 bytes, None,
        or anything JSON can hold, which is stored as JSON: dates, Decimal, UUID, enums,
        dataclasses, models and mappings too. The extras are like data. PGQ insert_event.

        With `delay` (seconds or a timedelta, from now) or `deliver_at` (a time), consumers get the
        event then, by the server's clock; a time that has passed means now. A naive `deliver_at`
        has this machine's zone.

        With `dedup_key` and `dedup_for`, seconds or a timedelta, it does what `insert_event_once`
        does, and returns the event's id only.

        Raises:
            InvalidEvent: a field cannot be stored; nothing was sent.
            InvalidArgument: dedup_key without dedup_for, or the reverse, or a wrong one; delay with
                deliver_at, or a time more than 100 years ahead; a key or a delay in a stage.
            QueueNotFound, QueueRefused: the queue refused.

            client.insert_event("orders", "paid", {"order": 17, "amount": "12.50"})
        """
        call = calls.produce.insert_one(
            queue,
            *(type, data, extra1, extra2, extra3, extra4),
            delay=delay,
            deliver_at=deliver_at,
            dedup_key=dedup_key,
            dedup_for=dedup_for,
            limit=self._payload_limit,
            default=self._json_default,
        )
        return self.runner.run(call)

    def insert(
        self,
        event: TypedEvent | Dataclass,
        *,
        delay: Interval | None = None,
        deliver_at: datetime | None = None,
        dedup_key: str | None = None,
        dedup_for: Interval | None = None,
    ) -> int:
        """Insert a typed event into the queue of its class and return its id.

        As `insert_event`; the key of its class becomes extra1. Raises InvalidEvent too if its
        fields do not fit the class, and TypeError if that is no class of typed events.

            client.insert(Placed(customer="ann", total=Decimal("12.50")))
        """
        from pgqpy.typed_events import row_of  # noqa: PLC0415  # pydantic takes 0.1 s

        return self.insert_event(
            *row_of(event),
            delay=delay,
            deliver_at=deliver_at,
            dedup_key=dedup_key,
            dedup_for=dedup_for,
        )

    def insert_event_once(
        self,
        queue: str,
        type: str | None,
        data: Payload,
        extra1: Payload = None,
        extra2: Payload = None,
        extra3: Payload = None,
        extra4: Payload = None,
        *,
        delay: Interval | None = None,
        deliver_at: datetime | None = None,
        dedup_key: str,
        dedup_for: Interval,
    ) -> InsertedOnce:
        """Insert one event unless its key is taken; return its id, or the first one's, `.is_new`.

        The key is taken for `dedup_for`, seconds or a timedelta. Another call with it meanwhile, on
        the same queue, inserts nothing and returns the first event's id. A key names the effect,
        not the entity: "reminder:17:2026-11-23", not "order:17". It belongs to the transaction of
        its event: while that is open, another call with the key waits for its end.

        `delay` and `deliver_at` are those of `insert_event`. They move the event, not the time for
        which the key is taken, which begins with the call.

        Raises:
            InvalidEvent: a field cannot be stored; nothing was sent.
            InvalidArgument: a key that is empty or has more than 1,000 octets; a time that is not
                more than 0; the transaction is a stage.
            QueueNotFound, QueueRefused: the queue refused.

            done = client.insert_event_once(
                "mails", "welcome", user.id, dedup_key=f"welcome:{user.id}", dedup_for=3600
            )
        """
        fields = (type, data, extra1, extra2, extra3, extra4)
        limit, default = self._payload_limit, self._json_default
        due = calls.produce.due_time(delay, deliver_at)
        return self.runner.run(
            calls.produce.insert_event_once(
                queue, dedup_key, dedup_for, *fields, due=due, limit=limit, default=default
            )
        )

    @overload
    def insert_events(
        self,
        queue: str,
        events: Events,
        *,
        returning_ids: Literal[False] = False,
        delay: Interval | None = None,
        deliver_at: datetime | None = None,
    ) -> int: ...

    @overload
    def insert_events(
        self,
        queue: str,
        events: Events,
        *,
        returning_ids: Literal[True],
        delay: Interval | None = None,
        deliver_at: datetime | None = None,
    ) -> list[int]: ...

    @overload
    def insert_events(
        self,
        queue: str,
        events: Events,
        *,
        returning_ids: bool,
        delay: Interval | None = None,
        deliver_at: datetime | None = None,
    ) -> int | list[int]: ...

    def insert_events(
        self,
        queue: str,
        events: Events,
        *,
        returning_ids: bool = False,
        delay: Interval | None = None,
        deliver_at: datetime | None = None,
    ) -> int | list[int]:
        """Insert any number of events and return how many. All or none, in bounded memory, by COPY.

        Each event is (type, data[, extra1..4]), a dict with these keys, or an object with these
        attributes, such as an Event. Up to 32 events are read before the first of them is checked.
        COPY ignores the queue's `per_tx_limit`: bound the iterable where that matters.

        With `returning_ids` it returns the ids instead, in the order of the events. The events are
        sent by the SQL function insert_events, up to 1,000 a call: slower, and the limit holds. So
        they are with `delay` or `deliver_at`, which mean one time for all, as in `insert_event`.

        Raises:
            InvalidEvent: an event cannot be stored; `.index` says which, from 0. Nothing was
                inserted, and a transaction of the application goes on.
            QueueNotFound, QueueRefused: the queue refused.
            QueueRefused: with `returning_ids` or a time, there were too many.

        What the iterable itself raises is passed on; nothing was inserted. COPY holds the
        connection while it asks for the next event: an iterable that calls a client over it gets an
        error, and one that waits for another thread or task that uses it waits for ever. With
        `returning_ids` or a time all events are read first, into memory. If the call is cancelled,
        the connection may be closed.

            client.insert_events("orders", (("paid", row) for row in rows))
        """
        due = calls.produce.due_time(delay, deliver_at)
        origin = self.runner.origin()
        if returning_ids or due is not None:
            load = Load(self._payload_limit, self._json_default)
            for some in in_lists(events, []):
                load.add(some)
            ids = self._insert_pieces(queue, load.pieces, due, origin)
            return ids if returning_ids else len(ids)
        with self.runner.locked(origin):
            self.runner.begin()
            with inner_transaction(self.connection):
                return self._copy(queue, events)
        raise Rollback  # the iterable raised it, and the transaction above took it for its own

    def cancel_event(self, queue: str, events: calls.produce.Events) -> list[Cancellation]:
        """Hide events from all consumers that have not had them; say what happened for each.

        `events` are Events or ids, or one of them. Copies that wait for a consumer, in its retry
        queue, are removed. Open batches do not change. Needs the role pgq_writer.

        Consumers of the queue wait until the transaction ends, so commit at once. The call waits
        for a consumer that opens or finishes a batch just now; `lock_timeout` limits that. Raises
        QueueNotFound, DatabaseRestored.

            told = client.cancel_event("orders", [17, 18])
            late = [each for each in told if each.state == "delivered"]
        """
        return self.runner.run(calls.produce.cancel_event(queue, events))

    def skip_event(
        self, queue: str, consumer: str, events: calls.produce.Events
    ) -> list[Cancellation]:
        """Hide events from one consumer, if it has not had them. Needs the role pgq_reader.

        As `cancel_event`. Raises ConsumerNotFound, WrongMode, DatabaseRestored.
        """
        return self.runner.run(calls.produce.skip_event(queue, consumer, events))

    def get_delayed_events(
        self, queue: str, *, limit: int | None = None
    ) -> list[DelayedEvent]:
        """List the delayed events of a queue, the one that is due first.

        `limit`: at most this many. Needs the role pgq_reader. Raises QueueNotFound.
        """
        return self.runner.run(calls.produce.get_delayed_events(queue, limit))

    def _insert_pieces(
        self, queue: str, pieces: list[Piece], due: timedelta | datetime | None, origin: CallOrigin
    ) -> list[int]:
        ids: list[int] = []
        with self.runner.locked(origin):
            self.runner.begin()
            with inner_transaction(self.connection):
                time = None
                if due is not None:
                    time = self.runner.run(calls.produce.time_of(due))
                for piece in pieces:
                    found = self.runner.run(calls.produce.insert_piece(queue, piece, time))
                    ids += found
        return ids

    def _copy(self, queue: str, events: Events) -> int:
        table = self.runner.run(calls.produce.table_to_load(queue))
        statement = calls.bulk.copy_into(table)
        raised: list[Exception] = []  # by the iterable: it may talk to a database too
        check_encoding(self.connection)
        try:
            with translated("current_event_table", {"queue": queue}, ignored=raised):
                with self.runner.cursor() as cursor, cursor.copy(statement) as copy:
                    with self.runner.exclusive.copying():
                        return self._write(copy, in_lists(events, raised))
        except BaseException:
            # Cancelled while psycopg began COPY or ended it: the connection would stay in it.
            if self.runner.status() == TransactionStatus.ACTIVE:
                close(self.connection)
            raise

    def _write(self, copy: Copy, events: Iterator[list[object]]) -> int:
        count = 0
        buffer = bytearray()
        for some in events:
            limit, default = self._payload_limit, self._json_default
            for lines in calls.bulk.lines(some, count, limit, default):
                buffer += lines
                if len(buffer) >= calls.bulk.BUFFER:
                    copy.write(bytes(buffer))
                    buffer.clear()
            count += len(some)
        if buffer:
            copy.write(bytes(buffer))
        return count
