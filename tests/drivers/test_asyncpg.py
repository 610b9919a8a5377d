"""pgqpy.asyncpg: events in the transaction of a connection of asyncpg."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.orm import Session

import pgqpy
from pgqpy.asyncpg import emit, emit_many
from tests.support.sqlstates import refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DUE = dt.datetime(2100, 1, 31, 14, tzinfo=dt.timezone.utc)
WAITING = "select ev_deliver_at, ev_type from pgq.get_delayed_events('orders')"


def place(dsn: str) -> dict[str, Any]:
    named: dict[str, Any] = conninfo_to_dict(dsn)
    database = {"database": named.pop("dbname")}
    return named | database


@pytest.fixture
async def pg(dsn: str, new_orders: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(**place(dsn))
    yield connection
    await connection.close()


async def test_an_event_belongs_to_the_connections_transaction(pg, inserted) -> None:
    with pytest.raises(LookupError):
        async with pg.transaction():
            await emit(pg, "orders", "lost", None)
            raise LookupError
    async with pg.transaction():
        await emit(pg, "orders", "placed", {"order": 1}, key="ann", extra2="x")
        assert inserted() == []
    await emit(pg, "orders", "alone")
    data = ("placed", '{"order":1}', "ann", "x", None, None)
    assert inserted() == [data, ("alone", *[None] * 5)]


async def test_an_error_leaves_the_transaction_usable(pg, inserted) -> None:
    async with pg.transaction():
        await emit(pg, "orders", "first", None)
        with pytest.raises(pgqpy.QueueNotFound, match="no queue 'nowhere'"):
            await emit(pg, "nowhere", "placed", None)
        with pytest.raises(pgqpy.InvalidEvent, match=r"data \$ is nan"):
            await emit(pg, "orders", "placed", float("nan"))
        await pg.execute("select pgq.set_queue_config('orders', 'disable_insert', '1')")
        with refused("PQ006"):
            await emit_many(pg, "orders", [("a", None), ("b", None)])
        await pg.execute("select pgq.set_queue_config('orders', 'disable_insert', '0')")
        await emit(pg, "orders", "last", None)
    assert [row[0] for row in inserted()] == ["first", "last"]


async def test_times_and_keys_are_those_of_the_client(pg, connection, inserted) -> None:
    await emit(pg, "orders", "at", None, deliver_at=DUE)
    once = [await emit(pg, "orders", "o", 1, dedup_key="a", dedup_for=60) for _ in range(2)]
    await emit_many(pg, "orders", [("many", None)], deliver_at=DUE)
    await emit_many(pg, "orders", [("soon", None)], delay=3600)
    assert once[0] == once[1]
    assert len(inserted()) == 1
    soon, *later = connection.execute(WAITING).fetchall()
    assert soon[1] == "soon"
    assert later == [(DUE, "at"), (DUE, "many")]


async def test_many_events_are_inserted_in_order_in_pieces(pg, connection, inserted) -> None:
    async def events() -> AsyncIterator[Any]:
        for number in range(2500):
            yield {"type": "many", "data": {number}, "extra1": number}

    ids = await emit_many(pg, "orders", events(), json_default=list)
    assert [row[1:3] for row in inserted()] == [(f"[{n}]", f"{n}") for n in range(2500)]
    query = "select ev_id from pgq.event_template order by ev_id"
    assert ids == [row[0] for row in connection.execute(query)]


async def test_an_event_that_cannot_be_stored_is_named_and_none_is_inserted(pg, inserted) -> None:
    events = [("a", None)] * 1100 + [("b", "\0")]
    with pytest.raises(pgqpy.InvalidEvent, match="event 1100: data contains a NUL") as caught:
        await emit_many(pg, "orders", events)
    assert caught.value.index == 1100
    assert inserted() == []


async def test_a_connection_of_a_pool_is_taken_and_nothing_else(dsn, new_orders, inserted) -> None:
    async with asyncpg.create_pool(**place(dsn), min_size=1, max_size=1) as pool:
        with pytest.raises(TypeError, match=r"not Pool: async with pool\.acquire\(\) as"):
            await emit(pool, "orders", "placed", None)
        with pytest.raises(TypeError, match=r"not Session: pgqpy\.sqlalchemy\.emit\(session"):
            await emit(Session(), "orders", "placed", None)
        async with pool.acquire() as connection, connection.transaction():
            await emit(connection, "orders", "placed", None)
            await emit_many(connection, "orders", [("sent", None)])
            await connection.execute("set local role pgq_reader")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await emit(connection, "orders", "placed", None)
    assert [row[0] for row in inserted()] == ["placed", "sent"]
