"""The failed events of a batch: those to retry and to give up."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from pgqpy.calls import consume, dead_events, failure_of
from pgqpy.consumers.handlers import ProcessDied
from pgqpy.consumers.log import logger
from pgqpy.consumers.retry import wanted_delay
from pgqpy.errors import SchemaMissing
from pgqpy.texts import describe, printable

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.retry import RetryPolicy
    from pgqpy.records import Batch, Event, Failure

T = TypeVar("T")

NO_DEAD_EVENTS = "the extension pgq has no dead events: pgqpy's schema has"


class AsyncFailures:
    """Collects failures until the batch or part is finished, or until there are many.

    Failures that are written earlier (`flush`) are delivered twice if the process then crashes: in
    the unfinished batch and from the retry queue. At-least-once allows that; unbounded memory would
    be worse (G8). Those of a transactional process_batch wait for the end all the same: see
    most_failures. They are kept without the fields of the event.
    """

    def __init__(
        self, session: AsyncSession, batch: Batch, policy: RetryPolicy, limit: float
    ) -> None:
        self._session = session
        self._batch = batch
        self._policy = policy
        self._limit = limit
        self.retried = self.given_up = 0  # events
        # A task or thread of process_batch may add a retry at any time, also while others are
        # being written: so each is taken out by itself, and none is cleared unseen.
        self._retries: deque[tuple[Event, float]] = deque()
        self._dead: deque[tuple[Event, Failure]] = deque()

    @property
    def full(self) -> bool:
        """Whether it is time to `flush`."""
        return len(self._retries) + len(self._dead) >= self._limit

    def judge(self, event: Event, error: BaseException) -> None:
        """Decide whether a failed event is retried or dead, and log it."""
        delay = self._policy.delay(event, error)
        if delay is None:
            self.dead(event, error)
            return
        self.retry(event, delay)
        wanted = wanted_delay(error) is not None
        text = f"{'asked for a retry' if wanted else 'failed, is retried'} in {delay:.1f} s"
        _log(logging.DEBUG if wanted else logging.WARNING, text, event, self._batch, error)

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
        dead, retries = _take(self._dead), _take(self._retries)
        wanted: list[Call[Any]] = []
        if dead:
            wanted.append(dead_events.event_dead(self._batch, dead))
        if retries and self._session.extension:
            wanted += [consume.event_retry(self._batch, *retry) for retry in retries]
        elif retries:
            wanted.append(consume.event_retry_many(self._batch, retries))
        return wanted

    async def flush(self) -> None:
        """Write them now."""
        wanted = self.take()
        if wanted:
            with self._session.calls.running():
                await self._session.runner.run_all(*wanted)


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
