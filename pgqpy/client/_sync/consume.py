"""[Generated from _async/consume.py by tools/unasync.py: edit that file, not this one.] The part of the client for consumers: registration, batches, retries."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.calls.dead_events import matching
from pgqpy.client._sync.base import Base
from pgqpy.errors import BatchLost, InvalidArgument

if TYPE_CHECKING:
    from collections import abc

    from typing_extensions import Unpack

    from pgqpy.calls import After, Interval
    from pgqpy.calls.dead_events import Filters
    from pgqpy.calls.inflight import Key
    from pgqpy.records import Batch, DeadEvent, Event, Failure, SeekResult


class Consuming(Base):
    """Reads events as a registered consumer. Needs the role pgq_reader."""

    def register_consumer(
        self,
        queue: str,
        consumer: str,
        *,
        shared: bool = False,
        key: Key | None = None,
        per_key: int = 1,
        limit_in_flight: int | None = None,
        rate: float | None = None,
    ) -> int:
        """Register a consumer at the queue's last tick; 1 if it is new, 0 if its position stays.

        It gets every event that this tick did not see: at least all that commit from now on.

        Args:
            queue: the queue.
            consumer: the consumer.
            shared: any number of processes share the consumer.
            key: of a shared consumer, "type", or "extra1" to "extra4": events with the same value
                there are handled in their order. None: no order.
            per_key: of a shared consumer, at most so many events of a key are claimed at a time;
                above 1 there is no order.
            limit_in_flight: of a shared consumer, at most so many events are claimed at a time.
            rate: of a shared consumer, at most so many events are claimed in a second.

        Without any limit, a shared consumer that is registered keeps those that it has. Raises
        QueueNotFound; WrongMode if it is registered and is not shared, or has other settings.
        PGQ register_consumer.
        """
        has_limits = (per_key, limit_in_flight, rate) != (1, None, None)
        if shared:
            call = calls.inflight.register_shared_consumer(
                queue,
                consumer,
                key,
                per_key=per_key if has_limits else None,
                limit_in_flight=limit_in_flight,
                rate=rate,
            )
            return self.runner.run(call)
        if key is not None or has_limits:
            msg = "a key and limits need shared=True: a plain consumer gets all events in order"
            raise InvalidArgument(msg, parameter="shared")
        return self.runner.run(calls.consume.register_consumer(queue, consumer))

    def register_consumer_at(self, queue: str, consumer: str, tick: int | None) -> int:
        """Register a consumer at a tick that the queue still keeps, or move it there.

        Moving drops its open batch, and leaves its retry events. None is the last tick, and moves
        nothing. Returns 1 if it is new, 0 if it was registered already. Raises QueueNotFound and
        NotFound. PGQ register_consumer_at.
        """
        return self.runner.run(calls.consume.register_consumer_at(queue, consumer, tick))

    def seek_consumer(
        self, queue: str, consumer: str, place: calls.consume.Place, *, discard: bool = False
    ) -> SeekResult:
        """Move a consumer: events come again, or are skipped.

        A process that runs the consumer goes on there by itself; what it has open is lost. Events
        that come again have the same ids. Those of them that wait for a retry are dropped there;
        with `discard` all that waits is dropped.

        Args:
            queue: the queue.
            consumer: the consumer, which must be registered.
            place: a tick: its next batch begins after it. A datetime: every event that was
                committed then or later comes, and some from shortly before. "beginning": all that
                is kept. "end": what the last tick does not see.
            discard: drop all that waits for a retry.

        Raises ConsumerNotFound; DatabaseRestored; RangeExpired or NotFound if the queue does
        not reach back so far, or has no such tick; ConsumerRunning if it belongs to a Spark
        stream.

            client.seek_consumer("orders", "billing", datetime(2026, 11, 22, 14, 0))
        """
        call = calls.consume.seek_consumer(queue, consumer, place, discard=discard)
        return self.runner.run(call)

    def unregister_consumer(self, queue: str, consumer: str) -> int:
        """Remove a consumer from a queue, with its workers and its retried and dead events.

        Returns how many registrations were removed: 1 plus the number of subconsumers; 0 if there
        was none. PGQ unregister_consumer.
        """
        return self.runner.run(calls.consume.unregister_consumer(queue, consumer))

    def set_consumer_filter(
        self,
        queue: str,
        consumer: str,
        *,
        types: calls.filters.Types | None = None,
        extras: calls.filters.Extras | None = None,
    ) -> int:
        """Decide which events a consumer takes: of these types, with these values of extras.

        A type that ends with * is a prefix. An event has to meet all conditions; None is no
        condition: `types=["order.*"], extras={"extra1": ["eu", "us"]}`. Events that are not
        finished yet are read with the new filter. Returns 1 if the filter changed, else 0. Raises
        ConsumerNotFound, InvalidArgument, and ConsumerRunning while another session is at work.
        """
        return self.runner.run(
            calls.filters.set_consumer_filter(queue, consumer, types, extras)
        )

    def next_batch(
        self,
        queue: str,
        consumer: str,
        *,
        min_lag: Interval | None = None,
        min_count: int | None = None,
        min_interval: Interval | None = None,
    ) -> Batch | None:
        """Open the consumer's next batch. None: there is no newer tick yet.

        An unfinished batch is delivered again, less its finished parts, whatever the arguments.
        `min_lag` takes only ticks at least this old. With `min_count` ticks are merged until about
        so many events are in the batch, with `min_interval` until it spans this time, whichever
        comes first. Times are seconds or timedeltas. Raises ConsumerNotFound.
        PGQ next_batch_info; with limits next_batch_custom.

            while batch := client.next_batch("orders", "billing"):
                for event in client.get_batch_events(batch):
                    print(event.data)
                client.finish_batch(batch)
        """
        call = calls.consume.next_batch(queue, consumer, min_lag, min_count, min_interval)
        return self.runner.run(call)

    def get_batch_events(
        self, batch: Batch | int, *, fetch_size: int = calls.read.FETCH_SIZE
    ) -> abc.Iterator[Event]:
        """Iterate over the events of a batch, by id, holding `fetch_size` of them at a time.

        A small batch is one SELECT. A large one is read through a cursor: inside a transaction
        PGQ's get_batch_cursor, so read it before the transaction ends; in autocommit a cursor WITH
        HOLD, so that no transaction stays open while the caller works on the events. The cursor is
        closed when the iterator is. With a pooler in transaction mode, call it inside a
        transaction. Raises BatchLost. PGQ get_batch_events.

            for event in client.get_batch_events(batch):
                print(event.id, event.type, event.json())
        """
        with closing(self.runner.fetch_batch_events(batch, fetch_size)) as fetched:
            for events in fetched:
                for event in events:
                    yield event

    def event_retry(self, batch: Batch | int, event: Event | int, after: After) -> int:
        """Put one event of an open batch into the retry queue: 1 queued, 0 was there already.

        `after` is seconds or a timedelta from now, or an aware datetime: then the event is
        delivered again. PGQ event_retry.

        Raises BatchLost, NotFound, and InvalidArgument for a negative delay.
        """
        return self.runner.run(calls.consume.event_retry(batch, event, after))

    def batch_retry(self, batch: Batch | int, after: Interval) -> int:
        """Put every event of an open batch into the retry queue; return the number of new ones.

        They are delivered again `after` seconds (or a timedelta) from now, rounded up to whole
        seconds. Raises BatchLost, and InvalidArgument for a negative delay. PGQ batch_retry.
        """
        return self.runner.run(calls.consume.batch_retry(batch, after))

    def finish_batch(self, batch: Batch | int) -> None:
        """Close a batch, and so move the consumer's position behind it. PGQ finish_batch.

        Raises BatchLost if it is not open any more: finished, taken over, or the consumer moved.
        """
        call = calls.consume.finish_batch(batch)
        if not self.runner.run(call):
            raise BatchLost(batch_id=calls.batch_id(batch), function="finish_batch")

    def finish_part(
        self,
        batch: Batch | int,
        up_to: Event | int,
        *,
        position: int | None = None,
    ) -> None:
        """Finish a part of an open batch: the events with an id up to this event's.

        Later reads of the batch leave them out, and after a crash they are not delivered again.
        `finish_batch` still finishes the batch.

        Args:
            batch: the batch or its id.
            up_to: the last finished event or its id.
            position: pgq.current_position.pos_no, as it was before the events were read. Then
                nothing is finished if another session has finished a part since.

        Raises:
            BatchLost: the batch is not open any more, or not at this position; InvalidArgument: the
            part would get smaller, or an id lies beyond the batch.
        """
        call = calls.consume.finish_part(batch, up_to, position)
        if not self.runner.run(call):
            raise BatchLost(batch_id=calls.batch_id(batch), function="finish_part")

    def event_dead(
        self,
        batch: Batch | int,
        dead: abc.Iterable[tuple[Event, str | BaseException | Failure | None]],
    ) -> int:
        """Give up events of an open batch: they are kept, but not delivered again.

        `dead` are pairs of an event and the reason: a text, of which 1,000 characters are kept, or
        an exception, whose class, text and traceback are kept. Returns the number of new dead
        events.

        Raises BatchLost, NotFound.
        """
        return self.runner.run(calls.dead_events.event_dead(batch, dead))

    def get_dead_events(
        self,
        queue: str,
        consumer: str,
        event_ids: abc.Iterable[int] | None = None,
        *,
        after: int | None = None,
        before: int | None = None,
        **filters: Unpack[Filters],
    ) -> list[DeadEvent]:
        """List dead events of a consumer, the newest event first.

        Args:
            queue: the queue.
            consumer: its consumer.
            event_ids: only these events.
            after: only events with a higher id: see get_dead_event_bounds.
            before: only events with a lower id.
            **filters: any of
                type: only events of this type; "": those without a type.
                error: only events that died of an exception of this class (`dead_error`); "":
                    those that died without an exception.
                since: only events that died at this time or later.
                until: only events that died before this time.
                limit: at most this many.

        Raises ConsumerNotFound.
        """
        wanted = matching(event_ids, **filters)
        call = calls.dead_events.get_dead_events(queue, consumer, wanted, after, before)
        return self.runner.run(call)

    def revive_dead_events(
        self,
        queue: str,
        consumer: str,
        event_ids: abc.Iterable[int] | None = None,
        *,
        after: int | None = None,
        **filters: Unpack[Filters],
    ) -> list[int]:
        """Put dead events into the retry queue, for their consumer; return their ids.

        The arguments are those of `get_dead_events`, and `after`: only events with a higher id.
        The oldest events are the first. With `limit` each call is a short transaction: call it
        again, `after` its last id, until it returns fewer. Events that another session is
        reviving or deleting are left out. Raises ConsumerNotFound.
        """
        wanted = matching(event_ids, **filters)
        return self.runner.run(
            calls.dead_events.revive_dead_events(queue, consumer, wanted, after)
        )

    def delete_dead_events(
        self,
        queue: str,
        consumer: str,
        event_ids: abc.Iterable[int] | None = None,
        *,
        after: int | None = None,
        **filters: Unpack[Filters],
    ) -> list[int]:
        """Delete dead events for good; return their ids.

        The arguments are those of `revive_dead_events`. Raises ConsumerNotFound.
        """
        wanted = matching(event_ids, **filters)
        return self.runner.run(
            calls.dead_events.delete_dead_events(queue, consumer, wanted, after)
        )

    def get_tick_events(
        self, queue: str, from_tick: int, to_tick: int, *, fetch_size: int = calls.read.FETCH_SIZE
    ) -> abc.Iterator[Event]:
        """Iterate over the events after one tick, up to another, by id; memory holds `fetch_size`.

        They are the events of the batches in between. Retried events, which belong to one consumer,
        are left out. Inside a transaction, read to the end before it ends.

        Raises QueueNotFound, NotFound, and RangeExpired if rotation removed some of its events.
        """
        size = calls.read.checked_fetch_size(fetch_size)
        wanted = calls.ticks.events(queue, from_tick, to_tick)
        name = calls.read.cursor_name(to_tick)
        with self.runner.locked():
            held = self.runner.is_alone()
            declare = calls.ticks.declare_events(name, wanted, held=held)
            self.runner.close_left_open()
            self.runner.read(wanted, declare, prepare=False)
        with closing(self.runner.fetch(wanted, name, size, None, held=held)) as lists:
            for events in lists:
                for event in events:
                    yield event
