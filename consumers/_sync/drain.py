"""[Generated from _async/drain.py by tools/unasync.py: edit that file, not this one.] Runs that end when nothing is due: for tests, scripts and cron jobs."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pgqpy.calls import admin, maintain, produce, sharing
from pgqpy.consumers.measures import Drained
from pgqpy.consumers.settings import queues_of

if TYPE_CHECKING:
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.consumers.waiting import Wakeup

PAUSE = 0.1  # seconds between two looks for events that are due later


class Drain:
    """Ticks when a run has nothing to do, and stops it when that brings nothing new."""

    def __init__(self, consumer: BaseConsumer, timeout: float, *, retries: bool) -> None:
        self._consumer = consumer
        self._timeout = timeout
        self._retries = retries  # wait for those that are due later, too
        self._before = replace(consumer.counts())
        self._ticked_at: int | None = None  # events that were handled before the last tick
        self._expired = False
        self._timer = threading.Timer(timeout, self._expire)
        self._timer.daemon = True

    def begin(self) -> None:
        """Start the timeout."""
        self._timer.start()

    def end(self) -> None:
        """Cancel the timeout."""
        self._timer.cancel()

    def idle(self, session: Session, stop: Wakeup) -> None:
        """Tick, and bring back what is due; stop the run if nothing came since the last call."""
        handled = self._consumer.counts().events
        if handled == self._ticked_at:
            if not self._waits(session):
                stop.set()
                return
            stop.wait(PAUSE)
        self._ticked_at = handled
        while session.runner.run(maintain.maint_retry_events()):
            pass
        while (session.runner.run(produce.move_delayed_events())).moved:
            pass
        for queue in queues_of(self._consumer):
            session.runner.run(maintain.tick_queue(queue))

    def _waits(self, session: Session) -> bool:
        """Return whether limits hold back due events or, with `retries`, others are due later."""
        name = self._consumer.name
        for queue in queues_of(self._consumer):
            if self._consumer.is_shared:
                found = session.runner.run(sharing.get_inflight(queue, name))
                due = sum(each.fresh + each.returned + each.in_pieces for each in found)
                later = sum(each.delayed for each in found)
            else:
                counts = session.runner.run(admin.get_retry_counts(queue, name))
                due, later = 0, sum(each.retry_events for each in counts)
            if due or (later and self._retries):
                return True
        return False

    def _expire(self) -> None:
        self._expired = True
        self._consumer.stop()

    def result(self) -> Drained:
        """Return what the run did; TimeoutError if the timeout ended it."""
        before, now = self._before, self._consumer.counts()
        retried, dead = now.retries - before.retries, now.dead - before.dead
        done = Drained(now.events - before.events - retried - dead, retried, dead)
        if self._expired:
            place = f"consumer {self._consumer.name} of queue {self._consumer.queue}"
            raise TimeoutError(f"{place} had more to do after {self._timeout:g} s: {done}")
        return done
