"""Sessions of SQLAlchemy over each driver of PostgreSQL, on a queue `orders`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from pgqpy.sqlalchemy import aemit, emit
from tests.client.conftest import inserted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["inserted"]  # pytest finds fixtures by their names here


def url(dsn: str, driver: str = "psycopg") -> sa.URL:
    named: dict[str, Any] = conninfo_to_dict(dsn)
    query = {"host": named["host"], "port": str(named["port"])}
    user, database = named["user"], named["dbname"]
    name = f"postgresql+{driver}"
    return sa.URL.create(name, user, named.get("password"), database=database, query=query)


class Play:
    """A session of one of the drivers, whose methods are all coroutines."""

    def __init__(self, dsn: str, driver: str, **options: Any) -> None:
        self.asynchronous = driver.startswith("async ")
        place = url(dsn, driver.removeprefix("async "))
        create: Any = create_async_engine if self.asynchronous else sa.create_engine
        self.engine: Any = create(place, **options)
        self.session: Any = (AsyncSession if self.asynchronous else Session)(bind=self.engine)

    async def emit(self, *event: Any, on: Any = None, **options: Any) -> int:
        insert: Any = aemit if self.asynchronous else emit
        return int(await self.done(insert(on or self.session, *event, **options)))

    async def execute(self, sql: str) -> None:
        await self.done(self.session.execute(sa.text(sql)))

    async def commit(self) -> None:
        await self.done(self.session.commit())

    async def rollback(self) -> None:
        await self.done(self.session.rollback())

    async def close(self) -> None:
        await self.done(self.session.close())
        await self.done(self.engine.dispose())

    async def done(self, result: Any) -> Any:
        return await result if inspect.isawaitable(result) else result


@pytest.fixture(params=["psycopg", "psycopg2", "async psycopg", "async asyncpg"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def play(dsn: str, new_orders: str, driver: str) -> AsyncIterator[Play]:
    play = Play(dsn, driver)
    yield play
    await play.close()
