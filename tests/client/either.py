"""One face for both clients, so that each promise is tested on both."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from typing_extensions import Self

    import pgqpy


class Either:
    """The sync client with the async client's face: it awaits at once."""

    def __init__(self, client: pgqpy.Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not inspect.isroutine(found):
            return found
        if name in ("get_batch_events", "get_tick_events"):
            return lambda *args, **kwargs: AsyncEvents(found(*args, **kwargs))
        if name == "receiver":
            return lambda *args, **kwargs: AsyncLoop(found(*args, **kwargs))
        if name == "transaction":
            return lambda: _entered(found())

        async def call(*args: Any, **kwargs: Any) -> Any:
            return found(*args, **kwargs)

        return call


class AsyncEvents:
    """A sync iterator, to be looped over by `async for`."""

    def __init__(self, events: Iterator[pgqpy.Event]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> pgqpy.Event:
        try:
            return next(self._events)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self._events.close()  # type: ignore[attr-defined]  # it is a generator


class AsyncLoop:
    """A sync receiver with the async one's face."""

    def __init__(self, receiver: pgqpy.Receiver) -> None:
        self._receiver = receiver

    async def __aenter__(self) -> Self:
        self._receiver.__enter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._receiver.__exit__(kind, *error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pgqpy.Event:
        return next(self._receiver)

    @property
    def attempt(self) -> int:
        return self._receiver.attempt

    def done(self, event: pgqpy.Event) -> None:
        self._receiver.done(event)

    async def retry(self, event: pgqpy.Event, *args: Any, **kwargs: Any) -> None:
        self._receiver.retry(event, *args, **kwargs)

    async def extend(self, event: pgqpy.Event, seconds: Any) -> None:
        self._receiver.extend(event, seconds)

    async def dead(self, event: pgqpy.Event, reason: Any) -> None:
        self._receiver.dead(event, reason)


@asynccontextmanager
async def _entered(transaction: Any) -> AsyncIterator[Any]:
    with transaction as entered:
        yield entered


async def sql(client: Any, query: str, params: Any = None) -> list[Any]:
    """Run any SQL on a client's connection; the rows."""
    cursor = client.connection.execute(query, params)
    if inspect.isawaitable(cursor):
        cursor = await cursor
    if cursor.description is None:
        return []
    rows = cursor.fetchall()
    return list(await rows if inspect.isawaitable(rows) else rows)
