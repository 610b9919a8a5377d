"""The subscription of a stream: its connection, its start, its pinned ticks, its advance."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from pgqpy import calls, tick_ranges
from pgqpy.consumers.for_tools import RunningLock, Session, Wakeup, is_loss, take_notifications
from pgqpy.errors import (
    ConsumerNotFound,
    ConsumerRunning,
    InvalidArgument,
    NotFound,
    PgqError,
    QueueNotFound,
    RangeExpired,
)
from pgqpy.spark.connections import error_and_delay, retrying
from pgqpy.spark.options import Offset
from pgqpy.spark.source.partitions import plan_partitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import StructType
    from tenacity import RetryCallState

    from pgqpy.client import Client
    from pgqpy.spark.connections import Database
    from pgqpy.spark.options import Bound, ReadOptions
    from pgqpy.spark.source.partitions import EventPartition
    from pgqpy.tick_ranges import Limits, Position, Queue


logger = logging.getLogger("pgqpy.spark")


def resolve_bound(client: Client, queue: Queue, bound: Bound, *, fail_on_data_loss: bool) -> int:
    """Return the tick for a bound.

    Raises:
        NotFound: the tick is in the future, or compaction removed it.
        RangeExpired: rotation removed events after it. Without `fail_on_data_loss`, log a warning
            and return the earliest tick instead.
        InvalidArgument: the time is in the future.
    """
    if bound.kind == "earliest":
        return queue.first_tick
    if bound.kind == "latest":
        return queue.last_tick
    if bound.kind == "tick":
        return retained_tick(
            client, queue, bound.tick, bound.option, fail_on_data_loss=fail_on_data_loss
        )
    return _tick_at_time(client, queue, bound, fail_on_data_loss=fail_on_data_loss)


def retained_tick(
    client: Client, queue: Queue, tick: int, option: str, *, fail_on_data_loss: bool
) -> int:
    """Return `tick` if it and all events after it still exist; else as `resolve_bound`."""
    if tick > queue.last_tick:
        raise future_tick(queue, tick, option)
    if tick < queue.low_tick:
        return _earliest_instead(
            queue, tick, f"{option}: tick {tick}", fail_on_data_loss=fail_on_data_loss
        )
    around = tick_ranges.adjacent_ticks(client, queue, tick)
    if tick not in around:
        near = " or ".join(str(each) for each in around if each is not None)
        raise NotFound(
            f"{option}: queue {queue.name!r} has no tick {tick}, because compaction keeps one tick "
            f"per second: name {near}",
            queue=queue.name,
            tick_id=tick,
            sqlstate="PQ005",
        )
    return tick


def future_tick(queue: Queue, tick: int, option: str) -> NotFound:
    """Return the error for a tick after the queue's last one."""
    return NotFound(
        f"{option}: tick {tick} is in the future, the last tick of queue {queue.name!r} is "
        f"{queue.last_tick}: name one from {queue.first_tick} to {queue.last_tick}",
        queue=queue.name,
        tick_id=tick,
        sqlstate="PQ005",
    )


def _tick_at_time(client: Client, queue: Queue, bound: Bound, *, fail_on_data_loss: bool) -> int:
    time = bound.time
    assert time is not None  # noqa: S101  # a bound of this kind has a time
    now = client.connection.execute("select %s > now()", [time]).fetchone()
    if now is not None and now[0]:
        raise InvalidArgument(
            f"{bound.option}: {time.isoformat()} is in the future: use a time that has passed",
            parameter=bound.option,
        )
    tick = tick_ranges.tick_at(client, queue, time)
    if tick is not None:
        return tick
    if queue.low_tick == 0:  # nothing was ever rotated away
        return queue.first_tick
    what = f"{bound.option}: {time.isoformat()}"
    return _earliest_instead(queue, None, what, fail_on_data_loss=fail_on_data_loss)


def _earliest_instead(queue: Queue, tick: int | None, what: str, *, fail_on_data_loss: bool) -> int:
    problem = (
        f"{what} is older than the events that rotation kept in queue {queue.name!r}, "
        f"ticks {queue.first_tick} to {queue.last_tick}"
    )
    if fail_on_data_loss:
        raise RangeExpired(
            f'{problem}: start at the earliest tick (startingOffsets "earliest"), or set '
            "failOnDataLoss to false",
            queue=queue.name,
            tick_id=tick,
            first_tick=queue.first_tick,
            last_tick=queue.last_tick,
        )
    logger.warning("%s: starting at tick %d, as failOnDataLoss is false", problem, queue.first_tick)
    return queue.first_tick


T = TypeVar("T")
logger = logging.getLogger("pgqpy.spark")


class DriverConnection:
    """The driver's connection for one consumer. It holds the consumer's running lock while open.

    `attach` is called with each new session before the lock is taken. It makes sure that the
    subscription exists, because the lock is the subscription's.
    """

    def __init__(
        self, database: Database, queue: str, consumer: str, attach: Callable[[Client], None]
    ) -> None:
        self._database = database
        self._queue = queue
        self._consumer = consumer
        self._attach = attach
        self._lock = RunningLock(queue, consumer)
        self._session: Session | None = None
        self._connected = False  # has connected at least once
        self._notified = True

    def call(self, action: Callable[[Client], T]) -> T:
        """Run `action`, which must be safe to repeat; reconnect and repeat it after a loss.

        Raises:
            ConnectionFailed: the first connection failed, or a lost one did not come back within
                `RETRY_TIMEOUT` seconds.
            ConsumerRunning: another program runs the consumer.
        """
        return retrying(self._is_retryable, self._log_and_close)(lambda: action(self._open()))

    def notified(self) -> bool:
        """Return whether a tick was notified since the last call. Runs no SQL and never waits."""
        session = self._session
        if session is None:
            return True
        try:
            if take_notifications(session.connection.pgconn):
                self._notified = True
        except Exception as error:
            if not is_loss(error):
                raise
            return True  # the next call() finds the lost connection
        notified, self._notified = self._notified, False
        return notified

    def close(self) -> None:
        """Close the connection, which releases the lock. Closing twice is safe."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _is_retryable(self, error: BaseException) -> bool:
        return self._connected and is_loss(error)

    def _log_and_close(self, state: RetryCallState) -> None:
        error, delay = error_and_delay(state)
        message = "queue %s, consumer %s: %s: trying again in %.1f s"
        logger.warning(message, self._queue, self._consumer, error, delay)
        self.close()

    def _open(self) -> Client:
        if self._session is None:
            session = Session.open(self._database.dsn, f"pgqpy spark {self._consumer}")
            try:
                self._attach(session.client)
                self._lock.take(session, Wakeup())
                session.connection.add_notify_handler(self._on_notification)
                session.listen(self._queue)
                self._notified = True
            except BaseException:
                session.close()
                raise
            self._session, self._connected = session, True
        return self._session.client

    def _on_notification(self, _notification: object) -> None:
        self._notified = True


CHECKPOINT = "the checkpoint's offset"
ATTEMPTS = 5  # compaction may remove a tick between the query and the pin


class Subscription:
    """The consumer that a query uses, and the connection to its queue.

    A function that is passed to `connection.call` may run again on a new connection.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._queue = options.queue
        self._consumer = options.consumer
        self.connection = DriverConnection(
            options.database, options.queue, options.consumer, self._attach
        )
        self._start: Offset | None = None  # to register a missing consumer at; None: the last tick
        self._known = False  # the start or the checkpoint was checked
        self._queue_id: int | None = None

    def newest(self, at: Offset) -> Offset:
        """Return the queue's newest tick; NotFound if the query is beyond it."""

        def newest(client: Client) -> Offset:
            queue = self._find(client)
            if queue.last_tick < at.tick:
                raise self._lost(client, at)
            return Offset(self._consumer, queue.id, queue.last_tick, queue.last_time)

        return self.connection.call(newest)

    def begin(self) -> Offset:
        """Move the subscription to the start of a new query, and return that offset.

        Raises:
            What `resolve_bound` raises; ConsumerRunning, also where the start is
            `subscription`, and another query may still need the events that it keeps.
        """
        bound = self._options.start

        def begin(client: Client) -> Offset:
            if bound is None or bound.kind == "subscription":
                tick = self._position_for_new_query(client).tick
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

    def next(self, at: Offset, most: int, limits: Limits) -> Offset:
        """Return the end of the micro-batch after `at`, pinned; else the start."""

        def pin(client: Client) -> Offset:
            queue = self._find(client)
            self._check_ticks(client, at)
            start = at.tick
            if not self._options.fail_on_data_loss:  # events before the position may be missing
                start = max(start, self._position(client).tick)
            end = tick_ranges.find_end(client, queue, start, most, limits)
            if end is not None:
                client.call(calls.ticks.pin_range(self._queue, self._consumer, start, end))
            return self._offset(client, start if end is None else end)

        for _ in range(ATTEMPTS - 1):
            with suppress(NotFound):
                return self.connection.call(pin)
        return self.connection.call(pin)

    def plan(self, start: Offset, end: Offset, schema: StructType) -> list[EventPartition]:
        """Return the partitions of a micro-batch."""

        def plan(client: Client) -> list[EventPartition]:
            with tick_ranges.locked_queue(client, self._queue) as queue:
                self._check_ticks(client, start, end)
                first = start.tick
                if first < queue.low_tick:
                    first = self._retained_tick(client, queue, first)
                if first >= end.tick:
                    return []
                least, types = self._options.min_partitions, self._options.types
                return plan_partitions(client, queue, first, end.tick, schema, least, types=types)

        return self.connection.call(plan)

    def advance(self, end: Offset) -> None:
        """Advance the subscription to a tick; Spark does not need earlier events any more."""

        def advance(client: Client) -> None:
            self._check_ticks(client, end)
            at = self._position(client).tick
            if at < end.tick:
                client.call(
                    calls.ticks.advance_subscription(self._queue, self._consumer, at, end.tick)
                )

        self.connection.call(advance)

    def _attach(self, client: Client) -> None:
        """Register the consumer if it is missing: the lock, taken next, needs a subscription."""
        queue = self._find(client)
        if tick_ranges.find_position(client, self._queue, self._consumer) is not None:
            return
        if self._start is None:
            client.register_consumer(self._queue, self._consumer)
            return
        self._check_ticks(client, self._start)
        tick = self._retained_tick(client, queue, self._start.tick)
        client.register_consumer_at(self._queue, self._consumer, tick)
        message = "consumer %s of queue %s was unregistered: registered it again at tick %d"
        logger.warning(message, self._consumer, self._queue, tick)

    def _find(self, client: Client) -> Queue:
        queue = tick_ranges.find_queue(client, self._queue)
        if self._queue_id not in (None, queue.id):
            raise QueueNotFound(
                f"queue {self._queue!r} (option queue) was dropped and created again since the "
                "checkpoint was written, so the checkpoint is not valid: start with a new "
                "checkpointLocation",
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
                f'to be read again, startingOffsets={{"tick": {position.tick}}}, '
                f'or were processed, startingOffsets={{"tick": {position.pins[-1]}}}',
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

    def _retained_tick(self, client: Client, queue: Queue, tick: int) -> int:
        loss = self._options.fail_on_data_loss
        return retained_tick(client, queue, tick, CHECKPOINT, fail_on_data_loss=loss)

    def _offset(self, client: Client, tick: int) -> Offset:
        assert self._queue_id is not None  # noqa: S101  # every connection has looked it up
        times = tick_ranges.find_tick_times(client, self._queue_id, tick)
        if tick not in times:
            text = f"queue {self._queue!r} has no tick {tick}"
            raise NotFound(text, queue=self._queue, tick_id=tick, sqlstate="PQ005")
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
        start = '"earliest"' if position is None else f'{{"tick": {position.tick}}}'
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
