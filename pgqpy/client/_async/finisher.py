"""Finishes messages: those of threads or tasks that wait for the connection share a statement."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from psycopg import OperationalError
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client.waiting import AsyncLock, to_the_end_async
from pgqpy.errors import BatchLost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy.client._async.runner import AsyncCallRunner

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


class AsyncFinisher:
    """Finishes messages of one client: group commit.

    No call waits for others to come. The first one sends its statement at once. Those that come
    while it is on its way wait for it, and the next statement finishes all of them.
    """

    def __init__(self, runner: AsyncCallRunner) -> None:
        self.runner = runner
        self._waiting: deque[_Finish] = deque()
        self._lock = AsyncLock()

    async def finish(self, events: Sequence[tuple[int, int]]) -> list[Exception | None]:
        """Finish events, given with their batches; return an error, or None, for each."""
        mine = [_Finish(*event) for event in events]
        self._waiting.extend(mine)
        try:
            async with self._lock:
                if not all(each.ended for each in mine):  # by the call before
                    await self._finish_waiting(mine)
        except BaseException:
            for each in mine:
                with suppress(
                    ValueError, IndexError
                ):  # it has left: it is on its way, or has ended
                    self._waiting.remove(each)
            raise
        return [each.error for each in mine]

    async def _finish_waiting(self, mine: list[_Finish]) -> None:
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        try:
            if len(taken) > len(mine):  # a task that is cancelled must not break off others
                await to_the_end_async(partial(self._send, taken))
            else:
                await self._send(taken)
        finally:
            for each in taken:
                if not each.ended:
                    each.end(OperationalError(BROKEN_OFF))

    async def _send(self, taken: list[_Finish]) -> None:
        if len(taken) > 1:
            await self._send_together(taken)
        for each in taken:
            if not each.ended:
                call = calls.messages.finish_events(each.batch_id, each.event_id)
                try:
                    each.end_open(was_open=await self.runner.run(call))
                except Exception as exc:  # noqa: BLE001  # the caller raises it
                    each.end(exc)

    async def _send_together(self, taken: list[_Finish]) -> None:
        """Finish all in one statement; if one of them makes it fail, none has ended."""
        events = [(each.batch_id, each.event_id) for each in taken]
        if len(set(events)) < len(events):
            return  # the second one of two that are the same has to fail
        try:
            lost = await self.runner.run(calls.messages.finish_events_many(events))
        except Exception as exc:  # noqa: BLE001  # as above
            if self.runner.status() == TransactionStatus.INERROR:  # nothing works in it any more
                for each in taken:
                    each.end(exc)
            return
        for each in taken:
            each.end_open(was_open=each.batch_id not in lost)
