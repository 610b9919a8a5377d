"""The client inside a SQLAlchemy session: events commit with the session's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import pgqpy

if TYPE_CHECKING:
    from collections.abc import Iterator


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_order"
    id: Mapped[int] = mapped_column(primary_key=True)


def url(dsn: str) -> sa.URL:
    return sa.URL.create("postgresql+psycopg", query=_strings(conninfo_to_dict(dsn)))


def _strings(named: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in named.items()}


@pytest.fixture
def engine(dsn: str, queue: pgqpy.Client) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url(dsn))
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def client_of(session: Session) -> pgqpy.Client:
    connection: Any = session.connection().connection.driver_connection
    return pgqpy.Client(connection)


def orders(engine: sa.Engine) -> list[int]:
    with Session(engine) as session:
        return list(session.scalars(sa.select(Order.id).order_by(Order.id)))


def test_events_commit_with_the_sessions_rows(engine: sa.Engine, inserted: Any) -> None:
    with Session(engine) as session:
        session.add(Order(id=1))
        session.flush()
        client = client_of(session)
        client.insert_event("orders", "paid", {"order": 1})
        client.insert_events("orders", [("sent", {"order": 1})])
        assert inserted() == []
        session.commit()
    assert [row[0] for row in inserted()] == ["paid", "sent"]
    assert orders(engine) == [1]


def test_nested_transaction_takes_its_events_with_it(engine: sa.Engine, inserted: Any) -> None:
    with Session(engine) as session, session.begin():
        client_of(session).insert_event("orders", "kept", None)
        with session.begin_nested() as nested:
            client = client_of(session)  # asking for the connection is what begins the savepoint
            client.insert_event("orders", "lost", None)
            client.insert_events("orders", [("lost", None)])
            nested.rollback()
    assert [row[0] for row in inserted()] == ["kept"]


async def test_async_session(dsn: str, queue: pgqpy.Client, inserted: Any) -> None:
    engine = create_async_engine(url(dsn))
    try:
        async with AsyncSession(engine) as session:
            raw = await (await session.connection()).get_raw_connection()
            connection: Any = raw.driver_connection
            client = pgqpy.AsyncClient(connection)
            await client.insert_event("orders", "paid", {"order": 1})
            await client.insert_events("orders", [("sent", {"order": 1})])
            assert inserted() == []
            await session.commit()
        assert [row[0] for row in inserted()] == ["paid", "sent"]
    finally:
        await engine.dispose()


@pytest.mark.parametrize("wrong", ["session", "connection", "fairy"])
def test_what_is_not_psycopgs_is_refused_with_the_way_there(engine: sa.Engine, wrong: str) -> None:
    with Session(engine) as session:
        connection = session.connection()
        given: Any = {
            "session": session,
            "connection": connection,
            "fairy": connection.connection,
        }[wrong]
        with pytest.raises(TypeError, match="driver_connection"):
            pgqpy.Client(given)
