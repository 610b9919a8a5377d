"""[Generated from _async/failures.py by tools/unasync.py: edit that file, not this one.] The failed events of a batch: those to retry, to park and to give up."""

from __future__ import annotations

import logging
import threading
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pgqpy.calls import consume, dead_events, failure_of, parked
from pgqpy.consumers.handlers import ProcessDied
from pgqpy.consumers.log import logger
from pgqpy.consumers.retry import wanted_delay
from pgqpy.errors import SchemaMissing
from pgqpy.records import Failure
from pgqpy.texts import describe, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgqpy.calls import Call
    from pgqpy.consumers._sync.parking import Parking
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.retry import RetryPolicy
    from pgqpy.records import Batch, Event

T = TypeVar("T")

NO_DEAD_EVENTS = "the extension pgq has no dead events: pgqpy's schema has"


class Failures:
    """Collects failures until the batch or part is finished, or until there are many.

    Failures that are written earlier (`flush`) are delivered twice if the process then crashes: in
    the unfinished batch and from the retry queue. At-least-once allows that; unbounded memory would
    be worse (G8). Two kinds wait for the end all the same: parked events of a part, and all
    failures of a transactional process_batch (see most_failures). Retries and dead events are kept
    without the fields of the event.
    """

    def __init__(
        self,
        session: Session,
        batch: Batch,
        policy: RetryPolicy,
        limit: float,
        parking: Parking,
    ) -> None:
        self._session = session
        self._batch = batch
        self._policy = policy
        self._limit = limit
        self.retried = self.given_up = self.waiting_behind = 0  # events
        # A task or thread of process_batch may add a retry at any time, also while others are
        # being written: so each is taken out by itself, and none is cleared unseen.
        self._retries: deque[tuple[Event, float]] = deque()
        self._dead: deque[tuple[Event, Failure]] = deque()
        self._parking = parking
        self._parked: deque[tuple[Event, str, timedelta | None, Failure]] = deque()
        self.parked_keys: set[str] = set()  # of these events
        self.write_at_position: Callable[[], None] | None = None  # for flush, if set
        self._writing = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether it is time to `flush`."""
        return len(self._retries) + len(self._dead) + len(self._parked) >= self._limit

    def judge(self, event: Event, error: BaseException) -> None:
        """Decide whether a failed event is retried, parked or dead, and log it."""
        delay = self._policy.delay(event, error)
        if delay is None:
            self.dead(event, error)
            return
        key = self._parking.key_or_none(event)
        follows = "is retried" if key is None else "is parked with its key, and retried"
        if key is None:
            self.retry(event, delay)
        else:
            self.retried += 1
            failure = failure_of(error)._replace(traceback=None)
            self._park(event, key, timedelta(seconds=delay), failure)
        wanted = wanted_delay(error) is not None
        text = f"{'asked for a retry' if wanted else f'failed, {follows}'} in {delay:.1f} s"
        _log(logging.DEBUG if wanted else logging.WARNING, text, event, self._batch, error)

    def wait_behind(self, event: Event) -> None:
        """Park an event that was not handled, because an earlier one of its key is parked."""
        key = self._parking.key(event)
        if key is not None:
            self.waiting_behind += 1
            self._park(event, key, None, Failure())

    def _park(self, event: Event, key: str, delay: timedelta | None, failure: Failure) -> None:
        self._parked.append((event, key, delay, failure))
        self.parked_keys.add(key)
        self._parking.parked.add(key)

    def retry(self, event: Event, after: float) -> None:
        """Put the event into the retry queue for some seconds, when the failures are written."""
        self.retried += 1
        self._retries.append((_without_fields(event), after))

    def dead(self, event: Event, why: str | BaseException) -> None:
        """Give the event up, when the failures are written, and log it."""
        if self._session.extension:
            raise SchemaMissing(NO_DEAD_EVENTS, function="event_dead", what_to_do="")
        failure = failure_of(why)
        if type(why) is ProcessDied:
            failure = failure._replace(tries=(event.retry or 0) + why.tries)
        self._dead.append((_without_fields(event), failure))
        self.given_up += 1
        if isinstance(why, BaseException):
            _log(logging.ERROR, "is dead", event, self._batch, why)
        else:
            _log(logging.ERROR, f"is dead: {printable(why)}", event, self._batch)

    def take(self) -> list[Call[Any]]:
        """Forget the failures and return the calls that write them.

        These go before finish_part or finish_batch.
        """
        dead, retries, waiting = _take(self._dead), _take(self._retries), _take(self._parked)
        wanted: list[Call[Any]] = []
        if waiting:
            self.parked_keys.clear()
            self._parking.exists = True
            wanted.append(parked.event_park(self._batch, waiting))
        if dead:
            wanted.append(dead_events.event_dead(self._batch, dead))
        if retries and self._session.extension:
            wanted += [consume.event_retry(self._batch, *retry) for retry in retries]
        elif retries:
            wanted.append(consume.event_retry_many(self._batch, retries))
        return wanted

    def flush(self) -> None:
        """Write them now, unless they are to be written with the end of their part.

        With a lease, the write moves the position: so two tasks or threads of a handler, which both
        read, do not write at once.
        """
        if self._parked and self._parking.at_ends:
            return
        if not (self._retries or self._dead or self._parked):
            return
        if self.write_at_position is not None:
            if self._writing.acquire(blocking=False):
                try:
                    self.write_at_position()
                finally:
                    self._writing.release()
            return
        with self._session.calls.running():
            self._session.runner.run_all(*self.take())


def _without_fields(event: Event) -> Event:
    """Return the event without data and extras: the server finds it by id, and many may wait."""
    return event._replace(data=None, extra1=None, extra2=None, extra3=None, extra4=None)


def _take(failures: deque[T]) -> list[T]:
    return [failures.popleft() for _ in range(len(failures))]


def _log(
    level: int, text: str, event: Event, batch: Batch, error: BaseException | None = None
) -> None:
    where = (event.id, event.type, event.retry or 0, batch.queue, batch.consumer)
    message = "event %d (type %r, retry %d) of queue %s, consumer %s, %s%s"
    # The traceback is logged once, the error each time: a retry may fail ten thousand times.
    traceback = logger.isEnabledFor(logging.DEBUG) or not event.retry
    reason = "" if traceback or error is None else f": {describe(error)}"
    logger.log(level, message, *where, text, reason, exc_info=error if traceback else None)
