"""The careful mode of a run: small parts after crashes, to find the event that kills.

The server narrows the parts when a run begins (begin_run). The run widens them again, and tells
when it ends in order (end_run).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import psycopg

from pgqpy.calls import consume
from pgqpy.consumers import crash
from pgqpy.consumers.crash import RunEnd, is_gone
from pgqpy.consumers.handlers import HANDLER_ERRORS, ProcessDied
from pgqpy.consumers.retry import backoff
from pgqpy.consumers.waiting import AsyncWakeup
from pgqpy.errors import ConsumerNotFound, PgqError
from pgqpy.records import RunState
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgqpy.calls import Call
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Event, Part

T = TypeVar("T")

logger = logging.getLogger("pgqpy.consumers")

LEAST_ATTEMPTS = 4  # three crashes narrow the parts to one event
QUIET_PARTS = 34  # 1,000 / 30: so many parts of 30 cover the part of 1,000 that a run ended in
LARGEST_PART = 1000  # events, of begin_run


class AsyncCareful:
    """How carefully a run handles its events."""

    def __init__(self, consumer: BaseConsumer, holder: str) -> None:
        self._consumer = consumer
        self._name = consumer.name  # of the registration: a worker has one of its own
        self.holder = holder
        self._session: AsyncSession | None = None  # that the run has begun in
        self._dsn: str | None = None  # of the server that may know the run's token
        self._state = RunState(None, None, None)
        self._died: tuple[str, ...] = ()  # the runs that a worker's tries count
        self._quiet = 0  # parts in a row that went well
        self._told = False  # that batches come in parts, since a worker crashed
        self.widened = 0  # times; each moved the position
        self._whole = False  # batches only: the extension pgq has no parts

    @property
    def part_size(self) -> int | None:
        """Events of a part: the setting, or less in careful mode; None: whole batches."""
        if self._whole:
            return None
        return min(self._consumer.part_size, self._state.part_size or self._consumer.part_size)

    @property
    def active(self) -> bool:
        """Whether an earlier run crashed, and too few parts went well since.

        Then events are handled one after the other, in small parts.
        """
        return self._state.part_size is not None

    async def begin(self, session: AsyncSession, stop: AsyncWakeup, name: str) -> None:
        """Ask how carefully to handle events, in each session before the first one.

        A worker takes batches under a `name` of its own, and asks whenever it takes one. With a
        lease, or with lanes, only its batches have the token.
        """
        consumer = self._consumer
        self._whole = session.extension
        if self._whole:
            return
        if consumer.lease is None and consumer.lanes is None:
            self._dsn = session.dsn
        if consumer.has_workers:
            if consumer.lanes is None:  # else it is the lane's of the last batch
                self._name = name
            self._session = session
            return
        try:
            self._state = await _send(session, self._begin_call())
        except PgqError:
            self._dsn = None  # refused: there is no run to end
            raise
        self._session = session
        if self._state.died is not None:
            session.ready = True
            await self._after_crash(stop)

    def took(self, part: Part | None) -> None:
        """Note how carefully a worker is to handle the batch that it took."""
        size, tries = (None, None) if part is None else (part.part_size, part.tries)
        if part is not None and self._session is not None:
            self._name, self._dsn = part.batch.consumer, self._session.dsn
        if part is not None and size is not None and not self._told:
            text = "consumer %s of queue %s: batch %d comes from a worker that crashed%s"
            times = f", for the {tries}. time at the same event" if tries else ""
            batch = part.batch
            logger.warning(text, batch.consumer, batch.queue, batch.id, times)
        if part is not None:
            self._told = size is not None
        self._state = RunState(size, tries, None)
        self._died = () if part is None else part.died

    async def _widen(self, session: AsyncSession) -> int | None:
        call = consume.widen_run(self._consumer.queue, self._name, self.holder)
        try:
            size = await _send(session, call)
        except ConsumerNotFound:
            size = None  # its lane has ended, or it was unregistered: the next poll finds out
        self.widened += 1
        self._state, self._quiet = RunState(size, None, self._state.died), 0
        return size

    async def _after_crash(self, stop: AsyncWakeup) -> None:
        consumer, state = self._consumer, self._state
        waits = False
        if not state.tries:
            follows = f"parts of {state.part_size} events for a while will find the one that kills"
        else:
            follows = f"for the {state.tries}. time at the same event"
            waits = consumer.on_error == "stop"
            follows += ', which on_error = "stop" does not give up: mend the handler' * waits
        steps = (LARGEST_PART, 30, 1).index(state.part_size or 1) + (state.tries or 0)
        policy = consumer.retry_policy
        delay = backoff(steps, base=policy.base, maximum=policy.maximum) * waits
        text = "consumer %s of queue %s: the run %s crashed: %s%s"
        wait = f". Going on in {delay:.1f} s" if waits else ""
        logger.warning(text, consumer.name, consumer.queue, state.died, follows, wait)
        if delay:
            await stop.wait(delay)

    def killer_error(self, part: list[Event]) -> ProcessDied | None:
        """Return the error of a part whose one event killed the process too often.

        An event and its retried copy are one event. A larger part tells nothing about any of its
        events, so its handlers are called.
        """
        tries = self._state.tries or 0
        enough = tries > max(crash.MAX_ATTEMPTS - LEAST_ATTEMPTS, 0)
        given_up = enough and self._consumer.on_error != "stop"
        one = len({event.id for event in part}) == 1
        return ProcessDied(tries) if one and given_up else None

    @property
    def may_live(self) -> bool:
        """Whether a run that counts as dead may have lost its session only."""
        return not all(is_gone(holder) for holder in self._died)

    async def part_finished(self, session: AsyncSession, *, whole: bool) -> None:
        """Count a part that went well, and widen the parts after many; `whole`: its batch ended.

        Whole batches come back only after the end of a batch: the event that kills may be anywhere
        in the one that was open.
        """
        self._state, self._died, self._leases = self._state._replace(tries=None), (), 0
        self._quiet += 1
        if self._quiet < QUIET_PARTS or (self._state.part_size == LARGEST_PART and not whole):
            return
        size = await self._widen(session)
        parts = f"parts of {self._consumer.part_size if size is None else size}"
        text = "consumer %s of queue %s: no crash since, events are handled in %s"
        logger.info(text, self._consumer.name, self._consumer.queue, parts)

    async def to_orderly_end(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work. Then tell that the run has ended in order, unless a session has told it.

        MemoryError and SystemExit are no orderly ends: an event may be the cause.
        """
        try:
            await work()
        except MemoryError:
            raise
        except HANDLER_ERRORS:
            await self._end_over_new_connection()
            raise
        await self._end_over_new_connection()

    async def end(self, session: AsyncSession) -> None:
        """Tell that the run ends in order, if it has begun and the session still works."""
        if session.lost or session is not self._session or self._dsn is None:
            return
        try:
            await _send(session, self._end_call())
        except ConsumerNotFound:
            pass  # it was unregistered, or its lanes were changed: there is no run to end
        except (psycopg.Error, PgqError):
            return  # _end_over_new_connection tries again
        self._dsn = None

    async def _end_over_new_connection(self) -> None:
        """Tell that the run ends, over a new connection; a second signal does not wait for it."""
        dsn, self._dsn = self._dsn, None
        if dsn is None:
            return
        consumer = self._consumer
        done = AsyncWakeup()
        done.open()
        name, leased = f"pgqpy end of consumer {consumer.name}", consumer.lease is not None
        late = RunEnd(dsn, name, self._end_call(), done, any_session=leased)
        try:
            late.start()
            await done.wait(late.timeout)
        finally:
            done.close()
        if late.error is not None:
            text = (
                "consumer %s of queue %s stops, but could not tell the server (%s): "
                "the next run may count this as a crash"
            )
            logger.warning(text, self._name, consumer.queue, describe(late.error))

    def forked(self) -> None:
        """Note that this is a forked child, in which nothing ends."""
        self._dsn = None

    def _begin_call(self) -> Call[RunState]:
        return consume.begin_run(self._consumer.queue, self._consumer.name, self.holder)

    def _end_call(self) -> Call[bool]:
        return consume.end_run(self._consumer.queue, self._name, self.holder)


async def _send(session: AsyncSession, call: Call[T]) -> T:
    with session.calls.running():
        return await session.runner.run(call)
