"""The subscription of a stream on one queue: its start, its pinned ticks, its advance."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from pgqpy import calls, tick_ranges
from pgqpy.errors import (
    ConsumerNotFound,
    ConsumerRunning,
    InvalidArgument,
    NotFound,
    PgqError,
    QueueNotFound,
    RangeExpired,
)
from pgqpy.spark.options import Bound, Offset
from pgqpy.spark.source.bounds import no_tick, resolve_bound
from pgqpy.spark.source.driver_connection import DriverConnection
from pgqpy.spark.source.partitions import plan_partitions
from pgqpy.tick_sizes import Limits, find_end

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.options import ReadOptions
    from pgqpy.spark.source.partitions import EventPartition
    from pgqpy.tick_ranges import Position, Queue


logger = logging.getLogger("pgqpy.spark")

LONGEST_EMPTY = timedelta(hours=1)  # then rotation shall not wait for a micro-batch any longer


class Behind(NamedTuple):
    """How far a position is behind the queue's newest tick. `seconds_behind`: None if unknown."""

    events_behind: int = 0
    ticks_behind: int = 0
    seconds_behind: float | None = 0.0


class Subscription:
    """The consumer that a query uses, and the connection to its queue.

    A function that is passed to `connection.call` may run again on a new connection.
    """

    def __init__(self, options: ReadOptions, queue: str) -> None:
        self._options = options
        self._queue = queue
        self._consumer = options.consumer
        self._joins = False  # a running query: a new consumer begins at the first tick
        self.connection = DriverConnection(options.database, queue, options.consumer, self._attach)
        self._start: Offset | None = None  # to register a missing consumer at; None: the last tick
        self._known = False  # the start or the checkpoint was checked
        self._queue_id: int | None = None
        self._is_new = False  # the consumer was registered by this query
        # No wanted event lies between these ticks. Only this session knows: a server that lost
        # ticks would give the numbers to others.
        self._empty = (0, 0)
        self.behind = Behind()  # as of the end of the last micro-batch and the empty ticks after it

    def newest(self, at: Offset) -> Offset:
        """Return the queue's newest tick; NotFound if the query is beyond it."""

        def newest(client: Client) -> Offset:
            queue = self._find(client)
            if queue.last_tick < at.tick:
                raise self._lost(client, at)
            return Offset(self._consumer, queue.id, queue.last_tick, queue.last_time)

        return self.connection.call(newest)

    def begin(self, *, joins: bool = False) -> Offset:
        """Move the subscription to the start of a new query, and return that offset.

        `joins`: the query runs already, with other queues. Then the start is a tick that the
        options name, else the subscription, or the first tick if the consumer is new.

        Raises:
            What `resolve_bound` raises; ConsumerRunning, also where the start is
            `subscription`, and another query may still need the events that it keeps.
        """
        bound = self._options.start or Bound("subscription")
        self._joins = not bound.covers(self._queue) or (joins and bound.ticks is None)

        def begin(client: Client) -> Offset:
            if self._joins or bound.kind == "subscription":
                tick = self._position_for_new_query(client).tick
                if self._is_new and not self._joins:
                    self._warn_of_earlier_events(client, tick)
            else:
                tick = self._move_to(client, bound)
            self._mark(client, tick)
            return self._offset(client, tick)

        self._start = self.connection.call(begin)
        self._known = True
        return self._start

    def resume(self, at: Offset) -> None:
        """Continue at an offset. The first call compares the checkpoint with the queue."""
        self._start = at
        if self._known:
            return
        if at.consumer != self._consumer:
            raise InvalidArgument(
                f"option consumer: the checkpoint is that of consumer {at.consumer!r}, not "
                f"{self._consumer!r}: name that one, or start with a new checkpointLocation",
                parameter="consumer",
            )
        self._queue_id = at.queue_id
        self.connection.call(lambda client: self._compare(client, at))
        self._known = True

    def empty_until(self, tick: int) -> int:
        """Return the end of the ticks after `tick` that are known to hold no wanted event."""
        first, last = self._empty
        return max(tick, last) if first <= tick else tick

    def next(self, at: Offset, most: int, limits: Limits | None) -> Offset:
        """Return the end of the micro-batch after `at`, pinned; else `at`.

        A micro-batch holds an event, or LONGEST_EMPTY or more without one. Without `limits` it is
        all there is. Spark asks for it when its checkpoint says that the one before is done. Spark
        commits the one before only with a next one. Without it the subscription advances here.
        """

        def pin(client: Client) -> Offset:
            with tick_ranges.locked_queue(client, self._queue):
                queue = self._find(client)
                self._check_ticks(client, at)
                start = at.tick
                if not self._options.fail_on_data_loss:  # events before it may be missing
                    start = max(start, self._position(client).tick)
                if limits is None:
                    end = find_end(client, queue, start, most, Limits())
                else:
                    end = self._find_end(client, queue, at.tick, start, most, limits)
                place = self.empty_until(at.tick) if end is None else end
                self.behind = _behind(client, queue, place)
                if end is None:
                    self._advance(client, at)
                    return at
                client.call(calls.ticks.pin_range(self._queue, self._consumer, start, end))
                return self._offset(client, end)

        return self.connection.call(pin)

    def plan(
        self, start: Offset, end: Offset, schema: StructType, least: int | None = None
    ) -> list[EventPartition]:
        """Return the partitions of a micro-batch."""

        def plan(client: Client) -> list[EventPartition]:
            with tick_ranges.locked_queue(client, self._queue):
                queue = self._find(client)
                self._check_ticks(client, start, end)
                first = start.tick
                if first < queue.low_tick:
                    first = self._retained_tick(client, queue, start)
                first = self._beyond_empty(client, queue, start.tick, first)
                if first >= end.tick:
                    return []
                types = self._options.types
                return plan_partitions(client, queue, first, end.tick, schema, least, types=types)

        return self.connection.call(plan)

    def advance(self, end: Offset) -> None:
        """Advance the subscription to a tick; Spark does not need earlier events any more."""

        def advance(client: Client) -> None:
            self._check_ticks(client, end)
            self._advance(client, end)

        self.connection.call(advance)

    def _advance(self, client: Client, end: Offset) -> None:
        self._find(client)  # another queue may have the name
        at = self._position(client).tick
        if at < end.tick:
            client.call(calls.ticks.advance_subscription(self._queue, self._consumer, at, end.tick))

    def _attach(self, client: Client) -> None:
        """Register the consumer if it is missing: the lock, taken next, needs a subscription."""
        self._empty = (0, 0)
        queue = self._find(client)
        if tick_ranges.find_position(client, self._queue, self._consumer) is not None:
            return
        if self._start is None:
            if self._joins:
                client.register_consumer_at(self._queue, self._consumer, queue.first_tick)
            else:
                client.register_consumer(self._queue, self._consumer)
                self._is_new = True
            return
        self._check_ticks(client, self._start)
        tick = self._retained_tick(client, queue, self._start)
        client.register_consumer_at(self._queue, self._consumer, tick)
        message = "consumer %s of queue %s was unregistered: registered it again at tick %d"
        logger.warning(message, self._consumer, self._queue, tick)

    def _warn_of_earlier_events(self, client: Client, tick: int) -> None:
        with tick_ranges.locked_queue(client, self._queue) as queue:
            first, types = queue.first_tick, self._options.types
            if first < tick and tick_ranges.has_events(client, queue, first, tick, types):
                logger.warning(
                    "consumer %s of queue %s is new: the query begins at tick %d, and passes over "
                    'earlier events. To read them, set startingOffsets to "earliest" and use a '
                    "new checkpointLocation",
                    self._consumer,
                    self._queue,
                    tick,
                )

    def _find_end(
        self, client: Client, queue: Queue, at: int, start: int, most: int, limits: Limits
    ) -> int | None:
        first = self._beyond_empty(client, queue, at, start)
        while (end := find_end(client, queue, first, most, limits)) is not None:
            if tick_ranges.has_events(client, queue, first, end, self._options.types):
                return end
            first = end
            self._empty = (at, end)
        is_long = tick_ranges.are_apart(client, queue, start, first, LONGEST_EMPTY)
        return first if is_long else None

    def _beyond_empty(self, client: Client, queue: Queue, at: int, start: int) -> int:
        """Return the last existing tick up to `empty_until(at)`, or `start` if that is later."""
        known = self.empty_until(at)
        if known <= start:
            return start
        return max(start, tick_ranges.adjacent_ticks(client, queue, known)[0] or 0)

    def _find(self, client: Client) -> Queue:
        queue = tick_ranges.find_queue(client, self._queue)
        if self._queue_id not in (None, queue.id):
            how = (
                "start the query again: it goes on without the old one"
                if tick_ranges.has_several(self._options.queue)
                else "the checkpoint is not valid any more, start with a new checkpointLocation"
            )
            raise QueueNotFound(
                f"queue {self._queue!r} (option queue) was dropped and created again: {how}",
                queue=self._queue,
            )
        self._queue_id = queue.id
        return queue

    def _position(self, client: Client) -> Position:
        found = tick_ranges.find_position(client, self._queue, self._consumer)
        if found is None:
            self._find(client)  # the queue may be dropped too
            raise ConsumerNotFound(
                f"consumer {self._consumer!r} (option consumer) of queue {self._queue!r} was "
                "unregistered while the query was running: start the query again",
                queue=self._queue,
                consumer=self._consumer,
            )
        return found

    def _position_for_new_query(self, client: Client) -> Position:
        self._find(client)
        position = self._position(client)
        if position.batch is not None:
            raise self._refused(
                f"has batch {position.batch} open: finish it, or give this query a consumer of its "
                "own (option consumer)",
                position,
            )
        if position.pins:
            raise self._refused(
                f"keeps ticks {position.tick} to {position.pins[-1]} for a query whose checkpoint "
                "this one does not have. Is this another query? Then give it a consumer of its own "
                "(option consumer). Was the checkpoint deleted? Then say whether those events are "
                f"to be read again, startingOffsets={self._at(position.tick)}, "
                f"or were processed, startingOffsets={self._at(position.pins[-1])}",
                position,
            )
        return position

    def _move_to(self, client: Client, bound: Bound) -> int:
        with tick_ranges.locked_queue(client, self._queue) as queue:
            tick = resolve_bound(
                client, queue, bound, fail_on_data_loss=self._options.fail_on_data_loss
            )
            client.register_consumer_at(self._queue, self._consumer, tick)
        return tick

    def _compare(self, client: Client, start: Offset) -> None:
        if start.tick > self._find(client).last_tick:
            raise self._lost(client, start)
        self._check_ticks(client, start)
        position = self._position(client)
        if position.tick > start.tick and self._options.fail_on_data_loss:
            raise self._refused(
                f"is at tick {position.tick}, beyond the checkpoint's tick {start.tick}: "
                "another program used it, or the checkpoint is an old copy. Give each query a "
                "consumer of its own (option consumer), or bring the newer checkpoint back. To go "
                f"on from this one, register_consumer_at({self._queue!r}, {self._consumer!r}, "
                f"{start.tick}): then all events after tick {start.tick} come again, and what the "
                "query has written of them is there twice unless it is removed first",
                position,
            )
        self._mark(client, position.tick)

    def _mark(self, client: Client, tick: int) -> None:
        """Let the server know, before the first range, that the subscription is read by ticks."""
        client.call(calls.ticks.advance_subscription(self._queue, self._consumer, tick, tick))

    def _retained_tick(self, client: Client, queue: Queue, at: Offset) -> int:
        """Return the tick of a checkpoint if it and all events after it still exist.

        Raises:
            NotFound: compaction removed the tick.
            RangeExpired: rotation removed events after it. With failOnDataLoss false, log a warning
                and return the earliest tick instead.
        """
        if at.tick >= queue.low_tick:
            before, _ = tick_ranges.adjacent_ticks(client, queue, at.tick)
            if before == at.tick:
                return at.tick
            start = '"earliest"' if before is None else self._at(before)
            raise no_tick(
                queue,
                at.tick,
                f"queue {self._queue!r} has not kept tick {at.tick} of the checkpoint, because "
                f"consumer {self._consumer!r} was unregistered: start with a new "
                f"checkpointLocation and startingOffsets={start}: from there no event is missing, "
                "and some come again",
            )
        first = self._offset(client, queue.first_tick)
        problem = (
            f"queue {self._queue!r} has lost events that the query had not read, those from tick "
            f"{at.tick} ({at.time}) to tick {first.tick} ({first.time}): rotation removed them, "
            f"because consumer {self._consumer!r} was unregistered"
        )
        if self._options.fail_on_data_loss:
            raise RangeExpired(
                f"{problem}: to go on without them, set failOnDataLoss to false, or start with a "
                'new checkpointLocation and startingOffsets "earliest"',
                queue=self._queue,
                tick_id=at.tick,
                first_tick=queue.first_tick,
                last_tick=queue.last_tick,
            )
        logger.warning("%s: going on without them, as failOnDataLoss is false", problem)
        return first.tick

    def _at(self, tick: int) -> str:
        """Return a tick as startingOffsets names it."""
        return json.dumps({self._queue: tick})

    def _offset(self, client: Client, tick: int) -> Offset:
        assert self._queue_id is not None  # noqa: S101  # every connection has looked it up
        times = tick_ranges.find_tick_times(client, self._queue_id, tick)
        return Offset(self._consumer, self._queue_id, tick, times[tick])

    def _check_ticks(self, client: Client, *offsets: Offset) -> None:
        """Raise NotFound if a number of the checkpoint is now that of another tick."""
        ticks = [each.tick for each in offsets]
        times = tick_ranges.find_tick_times(client, offsets[0].queue_id, *ticks)
        for each in offsets:
            if times.get(each.tick, each.time) != each.time:
                raise self._lost(client, each)

    def _lost(self, client: Client, at: Offset) -> NotFound:
        position = tick_ranges.find_position(client, self._queue, self._consumer)
        start = '"earliest"' if position is None else self._at(position.tick)
        return NotFound(
            f"queue {self._queue!r} has lost tick {at.tick}, where the query was at {at.time}: the "
            "server was restored from a backup, or a standby that lagged took over. "
            f"Start with a new checkpointLocation and startingOffsets={start}: from there no event "
            "is missing, and events that the sink has already come again",
            queue=self._queue,
            tick_id=at.tick,
            sqlstate="PQ005",
        )

    def _refused(self, problem: str, position: Position) -> PgqError:
        return ConsumerRunning(
            f"consumer {self._consumer!r} of queue {self._queue!r} {problem}",
            queue=self._queue,
            consumer=self._consumer,
            tick_id=position.tick,
            sqlstate="PQ017",
        )


def _behind(client: Client, queue: Queue, tick: int) -> Behind:
    found = tick_ranges.measure(client, queue.name, tick, queue.last_tick)
    if found is None:  # no events, whatever ticks there are
        return Behind()
    seconds = None if found.length is None else found.length.total_seconds()
    return Behind(found.events, found.to_tick - found.from_tick, seconds)
