"""[Generated from _async/finisher.py by tools/unasync.py: edit that file, not this one.] Finishes messages: those of threads or tasks that wait for the connection share a statement."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from psycopg import OperationalError
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client.waiting import Bell, to_the_end
from pgqpy.errors import BatchLost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.client._sync.runner import CallRunner

BROKEN_OFF = "the call was broken off: whether the message is finished is not known"


class _Finish:
    """One message to finish, and how that ended."""

    __slots__ = ("batch_id", "ended", "error", "event_id")

    def __init__(self, batch_id: int, event_id: int) -> None:
        self.batch_id = batch_id
        self.event_id = event_id
        self.ended = False
        self.error: Exception | None = None

    def end(self, error: Exception | None) -> None:
        self.error = error
        self.ended = True

    def end_open(self, *, was_open: bool) -> None:
        names = {"batch_id": self.batch_id, "event_id": self.event_id, "function": "finish_events"}
        self.end(None if was_open else BatchLost(None, **names))


class _Call:
    """One call of `finish`: it has to wait, or it leads."""

    __slots__ = ("bell", "events", "leads", "led")

    def __init__(self, events: list[_Finish]) -> None:
        self.events = events
        self.leads = False
        self.led: list[_Call] = []  # whose messages its statement finishes
        self.bell: Bell | None = None  # rung when the events have ended, or when it leads

    def end(self) -> None:
        """Let the call return: what is open of it was broken off."""
        for each in self.events:
            if not each.ended:
                each.end(OperationalError(BROKEN_OFF))
        self.wake()

    def wake(self) -> None:
        if self.bell is not None:
            self.bell.ring()


class Finisher:
    """Finishes messages of one client: group commit.

    No call waits for others to come. The first one leads: it sends its statement at once. Those
    that come meanwhile wait, and then one of them leads: its statement finishes the messages of
    all. With a lock around each statement, a call whose message is finished would still wait for
    the lock, behind the next statement.
    """

    def __init__(self, runner: CallRunner) -> None:
        self.runner = runner
        self._mutex = Lock()  # for all below; never held for longer than a moment
        self._waiting: list[_Call] = []
        self._is_led = False

    def finish(self, events: Iterable[tuple[int, int]]) -> list[Exception | None]:
        """Finish events, given with their batches; return an error, or None, for each."""
        self.runner.exclusive.refuse_in_copy()  # it would wait for a leader, who waits for COPY
        self.runner.refuse_left()  # another call could send it for this task
        call = _Call([_Finish(*event) for event in events])
        if self.runner.in_transaction():  # a shared statement could be sent after the rollback
            self._send(call.events)
            return [each.error for each in call.events]
        try:
            try:
                self._wait_or_lead(call)
            finally:
                self._leave(call)
        finally:  # again: Ctrl-C may come at any moment, also while a call leaves
            self._leave(call)
        return [each.error for each in call.events]

    def _wait_or_lead(self, call: _Call) -> None:
        with self._mutex:
            if self._is_led:
                call.bell = Bell()
            else:
                call.leads = self._is_led = True
            self._waiting.append(call)
        if call.bell is not None:
            call.bell.wait()
        if call.leads:
            self._lead(call)

    def _leave(self, call: _Call) -> None:
        """Let the next call lead; one that was broken off while it waited finishes nothing.

        To leave twice is safe.
        """
        for each in call.led:
            each.end()
        call.led = []
        with self._mutex:
            if call in self._waiting:
                self._waiting.remove(call)
            if call.leads:
                self._is_led = bool(self._waiting)
                for following in self._waiting[:1]:
                    following.leads = True
                    following.wake()
                call.leads = False

    def _lead(self, call: _Call) -> None:
        with self._mutex:
            call.led, self._waiting = self._waiting, []
        taken = [event for each in call.led for event in each.events]
        if len(call.led) > 1:  # a task that is cancelled must not break off others
            to_the_end(partial(self._send, taken))
        else:
            self._send(taken)

    def _send(self, taken: list[_Finish]) -> None:
        if len(taken) > 1:
            self._send_together(taken)
        for each in taken:
            if not each.ended:
                call = calls.messages.finish_events(each.batch_id, each.event_id)
                try:
                    each.end_open(was_open=self.runner.run(call))
                except Exception as exc:  # noqa: BLE001  # the caller raises it
                    each.end(exc)

    def _send_together(self, taken: list[_Finish]) -> None:
        """Finish all in one statement; if one of them makes it fail, none has ended."""
        events = [(each.batch_id, each.event_id) for each in taken]
        if len(set(events)) < len(events):
            return  # the second one of two that are the same has to fail
        try:
            lost = self.runner.run(calls.messages.finish_events_many(events))
        except Exception as exc:  # noqa: BLE001  # as above
            if self.runner.status() == TransactionStatus.INERROR:  # nothing works in it any more
                for each in taken:
                    each.end(exc)
            return
        for each in taken:
            each.end_open(was_open=each.batch_id not in lost)
