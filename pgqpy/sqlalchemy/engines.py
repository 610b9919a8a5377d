"""Engines over the connection that a consumer lends to its handler, and the names of sessions."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from sqlalchemy.engine import ExceptionContext

__all__ = ["AsyncEngine", "AsyncSession", "Engine", "Session", "lent"]

lent: ContextVar[Any] = ContextVar("pgqpy_lent")  # the connection that an engine takes next

URL = "postgresql+psycopg://"
OPTIONS: dict[str, Any] = {
    "poolclass": NullPool,  # nothing is kept: each call of a handler has a connection of its own
    "pool_reset_on_return": None,
    "use_native_hstore": False,  # it would be registered with the first connection only
}


def new_engine() -> Engine:
    """Return an engine whose connections are the ones in `lent`."""

    def creator() -> Any:
        return lent.get()

    engine = create_engine(URL, creator=creator, **OPTIONS)
    event.listen(engine, "handle_error", _note)
    return engine


def new_engine_async() -> AsyncEngine:
    """Do the same for asyncio."""

    async def creator() -> Any:
        return lent.get()

    engine = create_async_engine(URL, async_creator=creator, **OPTIONS)
    event.listen(engine.sync_engine, "handle_error", _note)
    return engine


def _note(context: ExceptionContext) -> None:
    """Tell the connection each error."""
    joined: Any = context.connection and context.connection.connection.driver_connection
    if joined is not None:
        joined.note(context.original_exception)
