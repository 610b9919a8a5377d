"""Errors of handlers, and the check of what handlers returned. No I/O."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator

# Exceptions that are failures of the handler itself. CancelledError is no Exception, but a handler
# also gets it from a cancelled task of its own. All others, such as SystemExit, end the consumer.
HANDLER_ERRORS = (Exception, asyncio.CancelledError)


class HandlerFailed(Exception):
    """A handler raised `error`; wrapped, so that it is not mistaken for an error of ours.

    `collided`: it is the consumer's own transaction that collided, and may simply be repeated.
    """

    def __init__(self, error: BaseException, *, collided: bool = False) -> None:
        super().__init__(type(error).__qualname__)
        self.error = error
        self.collided = collided


class ProcessDied(Exception):
    """Processes died while they handled an event: it is dead without another retry.

    `tries`: so many died while they handled nothing else.
    """

    def __init__(self, tries: int) -> None:
        super().__init__(f"the process died {tries} times while it handled only this event")
        self.tries = tries


class StopRequested(Exception):
    """`stop()` was called while the consumer was waiting to start."""


def check_result(result: object) -> None:
    """Raise TypeError if a handler returned work that is still to be done; other results are fine.

    A coroutine or generator has not even begun: if it counted as done, its event would be lost.
    """
    if result is None:
        return
    if not isinstance(result, (Awaitable, Generator, AsyncGenerator, concurrent.futures.Future)):
        return
    _discard(result)
    raise TypeError(
        f"the handler returned {_article(type(result).__name__)}, whose work was not done: "
        "await it or read it to its end in the handler, with `async def` in an AsyncConsumer"
    )


def _discard(result: object) -> None:
    """End work that was not begun: Python would warn that nobody awaited it."""
    if isinstance(result, (Coroutine, Generator)):
        result.close()
    elif isinstance(result, (asyncio.Future, concurrent.futures.Future)):
        result.cancel()


def _article(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
