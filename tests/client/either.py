"""One face for both clients, so that each promise is tested on both."""

from __future__ import annotations

import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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
