"""Wait for something that another session or process does, without sleeping blindly."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
POLL_INTERVAL = 0.01  # seconds


def eventually(fn: Callable[[], T], timeout: float = 30, *, interval: float = POLL_INTERVAL) -> T:
    """Call `fn` until its result is true, and return that; AssertionError after `timeout` seconds.

    An AssertionError inside `fn` counts as "not yet", and the last one is shown at the end.
    """
    deadline = time.monotonic() + timeout
    while True:
        result, problem = _attempt(fn)
        if result:
            return result
        if time.monotonic() > deadline:
            name = getattr(fn, "__name__", repr(fn))
            message = f"still not so after {timeout} s: {name}: {problem or result!r}"
            raise AssertionError(message) from problem
        time.sleep(interval)


async def eventually_async(
    fn: Callable[[], T], timeout: float = 30, *, interval: float = POLL_INTERVAL
) -> T:
    """Do as `eventually`, and let the other tasks of the event loop run meanwhile."""
    deadline = time.monotonic() + timeout
    while not (result := _attempt(fn)[0]):
        if time.monotonic() > deadline:
            return eventually(fn, 0)  # which says what is not so
        await asyncio.sleep(interval)
    return result


def _attempt(fn: Callable[[], T]) -> tuple[T | None, AssertionError | None]:
    try:
        return fn(), None
    except AssertionError as exc:
        return None, exc
