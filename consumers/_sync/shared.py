"""[Generated from _async/shared.py by tools/unasync.py: edit that file, not this one.] The loop of a shared consumer: it claims events, starts handlers for them, and ends the events.

One round trip ends the events that handlers have done and claims the next ones, in one transaction.
The loop claims no more events than handlers can begin soon. Claims outlive a session: handlers go
on while the consumer reconnects.
"""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.calls import filters, inflight
from pgqpy.consumers import waiting
from pgqpy.consumers._sync.shared_handlers import (
    Handlers,
    TransactionalHandlers,
    ClaimLost,
    NotHandled,
    end_calls,
)
from pgqpy.consumers.connections import is_a, is_transaction_ended
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed
from pgqpy.consumers.holders import CLOSING, Holders
from pgqpy.consumers.in_hand import InHand, Pace
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.retry import seconds, wanted_delay
from pgqpy.consumers.settings import filter_of, handler_name, key_of, queues_of, registration
from pgqpy.consumers.waiting import Wakeup
from pgqpy.consumers.workers import Workers
from pgqpy.errors import LeaseLost
from pgqpy.texts import describe, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgqpy.calls import Call
    from pgqpy.consumers._sync.claimed_list import ClaimedList
    from pgqpy.consumers._sync.loop import RunState
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.in_hand import Work
    from pgqpy.consumers.workers import Outcome
    from pgqpy.records import Event

logger = logging.getLogger("pgqpy.consumers")

LATE = 60.0  # seconds after the loss of a session: until then its claim may still be committed
CLOSE_WAIT = CLOSING + 1  # seconds
STUCK = 1.0  # seconds without the end of a handler; then the events that wait are returned
POLLERS = 3  # so many processes poll each POLL_INTERVAL; more share the polls
LAST_FIRST = 10  # one claim of so many asks the last queue first


class Write(NamedTuple):
    """A call about events of a claim; it returns how many it ended, and should end `ids`."""

    call: Call[int]
    token: int
    ids: Sequence[int]


@dataclass
class Source:
    """A queue, and what the next round trip writes there."""

    queue: str
    dry: bool = False  # the last claim got fewer events than it asked for; nothing happened since
    done: list[tuple[int, int]] = field(default_factory=list)  # tokens and ids
    calls: list[Write] = field(default_factory=list)

    @property
    def has_writes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.done or self.calls)


class SharedRun:
    """One run of a shared consumer, over all its sessions."""

    def __init__(self, state: RunState, dsn: str) -> None:
        """Claim nothing yet."""
        self._consumer = consumer = state.consumer
        self._stop = stop = state.stop
        self._drain, watch = state.drain, state.watch
        self._bell = Wakeup()  # a handler has ended, or a holder is new
        self._sources = [Source(queue) for queue in queues_of(consumer)]
        self._in_lists = handler_name(consumer) == "process_batch"
        self._in_hand = InHand(key_of(consumer), in_lists=self._in_lists)
        self._pace = Pace()
        self._policy = consumer.retry_policy
        self._failure: BaseException | None = None  # of a handler, which ends the run
        self._claims = 0
        self._ended_at = 0.0  # when the last handler ended
        self._unknown_until = self._returned_at = 0.0  # see _return_unknown
        self._handlers = (
            TransactionalHandlers(consumer, watch, dsn, stop)
            if consumer.is_transactional
            else Handlers(consumer, watch)
        )
        handle, number = self._handle, consumer.concurrency
        self._workers: Workers[ClaimedList | None]
        self._workers = Workers(handle, number, self._bell)
        queues, lease = queues_of(consumer), seconds(consumer.lease)
        self._closed = Wakeup()  # what was in hand is returned
        wake, closed = self._bell.set, self._closed
        self._holders = Holders(dsn, consumer.name, queues, lease, wake, closed)
        self._begun = False

    @property
    def in_progress(self) -> str | None:
        """What handlers are working on, for the log."""
        given = list(self._in_hand.given)
        if not given:
            return None
        return str(given[0]) if len(given) == 1 else f"{len(given)} calls of handlers"

    def files(self) -> list[int]:
        """Return the descriptors that a forked child must not use."""
        return [*self._holders.files(), *self._handlers.files()]

    def _handle(self, work: Work) -> ClaimedList | None:
        """Call the handler, unless another process may have the events by now."""
        return self._handlers.handle(work, self._holders.holds)

    def serve(self, session: Session, progress: Callable[[], None]) -> None:
        """Work in this session until `stop`, or until a handler's error is to end the run.

        `progress` is called after each round trip. What is in hand is kept if the session is lost.
        """
        while not self._stop.is_set:
            self._bell.reset()
            self._holders.check()
            self._collect()
            if self._failure is not None:
                break
            self._release_stuck(session)
            self._start()
            source, wanted = self._next_claim()
            writing = [each for each in self._sources if each.has_writes and each is not source]
            for each in writing:
                self._exchange(session, each, 0)
            if source is not None:
                self._exchange(session, source, wanted)
            if source is None and not writing:
                self._wait(session)
            progress()
        self._finish(session)
        if self._failure is not None:
            raise HandlerFailed(self._failure) from self._failure

    def _release_stuck(self, session: Session) -> None:
        """Return claimed events that this process will not handle soon, or does not know of."""
        now = time.monotonic()
        if self._returned_at + 1 < now < self._unknown_until:
            self._return_unknown(session)
        if len(self._in_hand.given) > self._workers.number and now > self._ended_at + STUCK:
            self._release_waiting()
            self._pace.note(STUCK)

    def close(self) -> None:
        """End the run, however it ended: return what is in hand."""
        self._workers.cancel()
        try:
            if self._begun:
                self._holders.close()
                self._closed.wait(CLOSE_WAIT)
        finally:
            self._closed.close()
            self._handlers.close()
            self._bell.close()

    def begin(self, session: Session) -> None:
        """Register the consumer; after a lost session, prepare to return what it claimed last."""
        consumer = self._consumer
        for source in self._sources:
            source.dry = False
            session.listen(source.queue)
        if self._begun:
            self._unknown_until = time.monotonic() + LATE
            self._returned_at = 0.0  # the first time is now
            return
        for source in self._sources:
            place = (source.queue, consumer.name)
            session.runner.run(registration(consumer, source.queue))
            if consumer.filter is not None:
                wanted = filter_of(consumer)
                if session.runner.run(filters.set_consumer_filter(*place, *wanted)):
                    words = printable(filters.describe_filter(*wanted))
                    text = "consumer %s of queue %s takes other events than before: %s"
                    logger.info(text, consumer.name, source.queue, words)
        self._bell.open()
        self._closed.open()
        self._holders.start()
        self._begun = True

    def _return_unknown(self, session: Session) -> None:
        """Return events of a claim whose answer was lost with a session.

        The server may commit such a claim after the session was lost.
        """
        known = self._in_hand.tokens
        for source in self._sources:
            known |= {token for token, _ in source.done} | {each.token for each in source.calls}
        for number in self._holders.numbers():
            call = inflight.release_holder(number, list(known))
            session.send_again(self._stop, call)
        self._returned_at = time.monotonic()

    def _collect(self) -> None:
        """Take the outcomes of the handlers that have ended."""
        for outcome in self._workers.ended():
            self._ended_at = time.monotonic()
            self._pace.note(outcome.seconds)
            self._settle(outcome)

    def _settle(self, outcome: Outcome[ClaimedList | None]) -> None:
        work, error = outcome.work, outcome.error
        source = self._source(work.queue)
        source.dry = False  # the next of its key may be there
        if error is None:
            self._in_hand.end(work)
            self._note_done(source, work, outcome.result)
            return
        if not is_a(error, HANDLER_ERRORS):
            self._holders.kept.append(work.token)  # it counts as a crash
            raise error
        raise_if_cancelled(error)
        if is_a(error, (ClaimLost, NotHandled)):
            also = self._in_hand.end(work, drops_key=True)
            gone = [claimed for each in (work, *also) for claimed in each.claimed]
            if is_a(error, ClaimLost):
                self._lost(source, gone)
            else:
                self._release(source, gone)
            return
        if self._ends_run(error):
            self._failure = self._failure or error
            self._in_hand.end(work)
            self._release(source, work.claimed)
            return
        delays = {event.id: self._delay(event, error) for event in work.events}
        comes_again = any(delay is not None for delay in delays.values())
        self._in_hand.end(work, drops_key=self._keeps_key and comes_again)
        self._note_failed(source, work, error, delays)

    @property
    def _name(self) -> str:
        return self._consumer.name

    @property
    def _keeps_key(self) -> bool:
        return self._consumer.on_error == "park"

    def _ends_run(self, error: BaseException) -> bool:
        given_up = not self._in_lists and self._policy.gives_up(error)
        if is_transaction_ended(error):  # the handler would commit its effect again and again
            return True
        return self._consumer.on_error == "stop" and wanted_delay(error) is None and not given_up

    def _note_done(self, source: Source, work: Work, batch: ClaimedList | None) -> None:
        counts, whole = self._consumer.counts(), batch is None
        counts.batches += 1
        counts.events += len(work.events)
        if batch is not None:
            counts.retries += len(batch.retries)
            counts.dead += len(batch.deaths)
            whole = not (batch.retries or batch.deaths)
            if batch.trace is not None:
                batch.trace.finished(batch.size)
        if self._consumer.is_transactional:
            return
        if whole:
            source.done += work.claimed
        else:
            for call in end_calls(work, self._name, batch, keep_key=self._keeps_key):
                self._write(source, call, work.token)

    def _note_failed(
        self, source: Source, work: Work, error: BaseException, delays: dict[int, float | None]
    ) -> None:
        """Retry the events of a failed handler, or make them dead."""
        counts, place = self._consumer.counts(), (source.queue, self._name, work.token)
        counts.batches += 1
        counts.events += len(work.events)
        dead = [event for event, delay in delays.items() if delay is None]
        again = [delay for delay in delays.values() if delay is not None]
        if dead:
            counts.dead += len(dead)
            self._write(source, inflight.dead(*place, dead, error), work.token, dead)
        if again:
            counts.retries += len(again)
            ids = [event for event, delay in delays.items() if delay is not None]
            call = inflight.retry(*place, ids, max(again), keep_key=self._keeps_key)
            self._write(source, call, work.token, ids)
        self._log_failed(work, error, max(again) if again else None)

    def _delay(self, event: Event, error: BaseException) -> float | None:
        if self._consumer.on_error == "dead" and wanted_delay(error) is None:
            return None
        return self._policy.delay(event, error)

    def _log_failed(self, work: Work, error: BaseException, delay: float | None) -> None:
        wanted = wanted_delay(error) is not None
        retries = work.events[0].retry or 0
        follows = "is dead" if delay is None else f"is handled again in {delay:.1f} s"
        level = logging.DEBUG if wanted else logging.WARNING
        level = level if delay is not None else logging.ERROR
        traceback = logger.isEnabledFor(logging.DEBUG) or not retries
        text = "%s, consumer %s, retry %d, failed and %s%s"
        reason = "" if traceback else f": {describe(error)}"
        names = (work, self._name, retries)
        logger.log(level, text, *names, follows, reason, exc_info=error if traceback else None)

    def _write(self, source: Source, call: Call[int], token: int, ids: Sequence[int] = ()) -> None:
        """Add a call to the next round trip; if it ends fewer events than `ids`, that is logged."""
        source.calls.append(Write(call, token, ids))

    def _start(self) -> None:
        """Give workers what may begin."""
        written = not any(source.has_writes for source in self._sources)
        while (work := self._in_hand.give(all_is_written=written)) is not None:
            self._workers.start(work, len(self._in_hand.given) - 1)

    def _next_claim(self) -> tuple[Source | None, int]:
        """Return the queue to claim from, and how many events; None: claim nothing now."""
        if self._in_hand.has_suspects:
            return None, 0
        number, given = self._workers.number, len(self._in_hand.given)
        if self._in_lists:
            wanted = self._consumer.limit if given < number else 0
        else:
            ahead = min(self._pace.ahead(number), self._consumer.limit)
            wanted = min(number + ahead - given, self._consumer.limit)
            wanted = wanted if given - number <= ahead // 2 else 0
        if wanted <= 0:
            return None, 0
        order = self._sources
        if self._claims % LAST_FIRST == LAST_FIRST - 1:
            order = order[::-1]
        for source in order:
            if not source.dry and self._holders.number(source.queue) is not None:
                self._claims += 1
                return source, wanted
        return None, 0

    def _exchange(self, session: Session, source: Source, wanted: int) -> None:
        """End, retry or release events of one queue, and claim up to `wanted` more."""
        holder = self._holders.number(source.queue) if wanted else None
        place, done, calls = (source.queue, self._name), list(source.done), list(source.calls)
        sent: list[Call[Any]] = [inflight.done(*place, done)] if done else []
        sent += [each.call for each in calls]
        if holder is not None:
            lease, alone = self._consumer.lease, not sent
            sent.append(inflight.claim(*place, wanted, lease, holder, alone=alone))
        try:
            results = session.send_again(self._stop, *sent)
        except LeaseLost:
            if holder is None:
                raise
            self._holders.lost(holder)
            return
        del source.done[: len(done)], source.calls[: len(calls)]
        claim = results.pop() if holder is not None else None
        gone = set(results.pop(0)) if done else set()
        lost = [(token, event) for token, event in done if event in gone]
        for write, ended in zip(calls, results, strict=True):
            if ended < len(write.ids):
                lost += [(write.token, event) for event in write.ids]
        self._lost(source, lost)
        if holder is not None:
            source.dry = claim is None or len(claim.events) < wanted
            if claim is not None:
                self._ended_at = max(self._ended_at, time.monotonic())
                self._in_hand.add(source.queue, holder, claim)
                self._start()

    def _wait(self, session: Session) -> None:
        """Wait for a tick, the end of a handler, `stop`, or this process's turn to poll.

        A claim needs no tick: the notification of one only ends the wait sooner than a poll.
        """
        if self._bell.is_set:
            return
        session.ready = True
        dry = all(source.dry for source in self._sources)
        if self._drain is not None and dry and not self._in_hand.given:
            self._drain.idle(session, self._stop)
            for source in self._sources:
                source.dry = False
            return
        began = time.monotonic()
        pause = waiting.POLL_INTERVAL * max(1.0, self._holders.processes / POLLERS)
        pause *= random.uniform(0.8, 1.0)  # a tick wakes all processes: they shall not stay in step
        ticked = session.wait(pause, self._stop, self._bell.file)
        if ticked or time.monotonic() - began >= pause or not self._in_hand.given:
            for source in self._sources:
                source.dry = False

    def _finish(self, session: Session) -> None:
        """Return events that no handler has begun; wait for running handlers, for stop_timeout."""
        end = time.monotonic() + seconds(self._consumer.stop_timeout)
        while True:
            self._bell.reset()
            self._collect()
            self._release_waiting()
            for source in self._sources:
                if source.has_writes:
                    self._exchange(session, source, 0)
            left = end - time.monotonic()
            if not self._in_hand.given or left <= 0:
                break
            self._bell.wait(left)
        if self._in_hand.given:
            text = "consumer %s stops after stop_timeout while %s goes on: others get the events"
            logger.warning(text, self._name, self.in_progress)

    def _release_waiting(self) -> None:
        """Return events that no handler has begun, also those that wait behind their key."""
        back = self._workers.take_back()
        for work in back:
            self._in_hand.end(work)
        waiting = (*back, *self._in_hand.drop())
        for source in self._sources:
            mine = [work for work in waiting if work.queue == source.queue]
            self._release(source, [claimed for work in mine for claimed in work.claimed])

    def _lost(self, source: Source, events: Sequence[tuple[int, int]]) -> None:
        """Log that other processes may have these events; release those that are still claimed.

        `events` are tokens and ids.
        """
        if not events:
            return
        text = (
            "consumer %s of queue %s: the lease of %d event(s) had ended before they were done: "
            "they are handled again"
        )
        logger.warning(text, self._name, source.queue, len(events))
        self._release(source, events)

    def _release(self, source: Source, events: Sequence[tuple[int, int]]) -> None:
        """Release those of these events that are still claimed; `events` are tokens and ids."""
        for token in {token for token, _ in events}:
            ids = [event for of, event in events if of == token]
            call = inflight.release(source.queue, self._name, token, ids)
            self._write(source, call, token)

    def _source(self, queue: str) -> Source:
        return next(source for source in self._sources if source.queue == queue)
