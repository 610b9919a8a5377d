"""Wait for something that another session or process does, without sleeping blindly."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
SHORTEST, LONGEST = 0.002, 0.02  # seconds between two looks, which come less and less often


def eventually(fn: Callable[[], T], timeout: float = 30, *, interval: float = LONGEST) -> T:
    """Call `fn` until its result is true, and return that; AssertionError after `timeout` seconds.

    It looks again after 2 ms, and then less and less often, up to `interval` seconds.
    An AssertionError inside `fn` counts as "not yet", and the last one is shown at the end.
    """
    deadline = time.monotonic() + timeout
    intervals = _intervals(interval)
    while True:
        result, problem = _attempt(fn)
        if result:
            return result
        if time.monotonic() > deadline:
            name = getattr(fn, "__name__", repr(fn))
            message = f"still not so after {timeout} s: {name}: {problem or result!r}"
            raise AssertionError(message) from problem
        time.sleep(next(intervals))


async def eventually_async(
    fn: Callable[[], T], timeout: float = 30, *, interval: float = LONGEST
) -> T:
    """Do as `eventually`, and let the other tasks of the event loop run meanwhile."""
    deadline = time.monotonic() + timeout
    intervals = _intervals(interval)
    while not (result := _attempt(fn)[0]):
        if time.monotonic() > deadline:
            return eventually(fn, 0)  # which says what is not so
        await asyncio.sleep(next(intervals))
    return result


def _intervals(longest: float) -> Iterator[float]:
    interval = min(SHORTEST, longest)
    while True:
        yield interval
        interval = min(interval * 1.5, longest)


def _attempt(fn: Callable[[], T]) -> tuple[T | None, AssertionError | None]:
    try:
        return fn(), None
    except AssertionError as exc:
        return None, exc
