"""The task that runs an AsyncConsumer, and whether somebody asked to cancel it.

A TaskGroup whose task fails cancels the task that waits for it, and before Python 3.13 it does not
take that back. So an AsyncConsumer runs in a task of its own, and only what cancels the task that
called `run()` counts.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pgqpy.consumers.connections import is_a

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

CANCELLED = (
    "the task in which handlers run was cancelled, by a timer that a handler left, say; to end the "
    "consumer, cancel the task that called run(), or call stop()"
)

_caller: ContextVar[tuple[Any, int] | None] = ContextVar("pgqpy_caller", default=None)


def run_in_own_task(work: Callable[[], None], _stop: Callable[[], None]) -> None:
    """Run it: a thread has no task, and nobody cancels it."""
    work()


async def run_in_own_task_async(
    work: Callable[[], Awaitable[None]], stop: Callable[[], None]
) -> None:
    """Run it in a task of its own, which is cancelled with the task that calls this.

    A handler may swallow that, so it also calls `stop`: no other event begins. The caller gets its
    own CancelledError back: a cancel scope of anyio knows it by that. Raises RuntimeError if
    somebody else cancelled the task: a caller that gets CancelledError unasked may end without a
    word, as a task of a TaskGroup does.
    """
    caller = asyncio.current_task()
    token = _caller.set((caller, _requests(caller)))
    task = asyncio.create_task(_error_of(work))
    _caller.reset(token)  # the task has a copy
    request: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as cancelled:
            # A cancel scope of anyio repeats its cancellation, which has a text, in each turn of
            # the loop. A repetition would break off what a handler shields, and the call that tells
            # the end of the run. So would another scope.
            if request is None or not cancelled.args:
                task.cancel()
            request = request or cancelled
            stop()
    error = asyncio.CancelledError() if task.cancelled() else task.result()
    if request is not None:
        raise request from error
    if not isinstance(error, (asyncio.CancelledError, type(None))):
        raise error
    if error is not None:
        raise RuntimeError(CANCELLED) from error


async def _error_of(work: Callable[[], Awaitable[None]]) -> BaseException | None:
    """Return the error: SystemExit, raised in a task of its own, would end the event loop."""
    try:
        await work()
    except BaseException as error:  # noqa: BLE001  # the caller raises it
        return error
    return None


def raise_if_cancelled(error: BaseException | None = None) -> None:
    """Raise CancelledError if somebody asked to cancel the consumer.

    A handler may have swallowed the CancelledError, or have raised this error instead.
    """
    found = _caller.get()
    if found is None:  # a Consumer
        return
    caller, earlier = found
    in_310 = not hasattr(caller, "cancelling")  # each CancelledError is taken for a request there
    asked = in_310 and error is not None and is_a(error, asyncio.CancelledError)
    if asked or _requests(caller) > earlier:
        raise asyncio.CancelledError from error


def _requests(task: Any) -> int:
    """Return how often somebody asked to cancel a task. Python 3.10 does not know."""
    return task.cancelling() if hasattr(task, "cancelling") else 0
