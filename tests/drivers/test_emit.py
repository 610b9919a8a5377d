"""emit and aemit: events in the transaction of a session, over every driver."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session

import pgqpy
from pgqpy.sqlalchemy import aemit, emit
from tests.drivers.conftest import Play, url
from tests.support.sqlstates import refused

DUE = dt.datetime(2100, 1, 31, 14, tzinfo=dt.timezone.utc)
DELAYED = "select ev_deliver_at, ev_type from pgq.get_delayed_events('orders')"


class Base(DeclarativeBase):
    pass


class Placed(pgqpy.TypedEvent, queue="orders", type="placed", key="customer"):
    order: int
    customer: str


class Order(Base):
    __tablename__ = "shop_order"
    id: Mapped[int] = mapped_column(primary_key=True)


async def test_an_event_belongs_to_the_sessions_transaction(play, connection, inserted) -> None:
    connection.execute("create table shop (id int)")
    await play.emit("orders", "lost", None)
    await play.rollback()
    await play.execute("insert into shop values (1)")
    await play.emit("orders", "placed", {"order": 1}, key="ann", extra3=b"x", extra4=4)
    nested = await play.done(play.session.begin_nested())
    await play.emit("orders", "lost", None)
    await play.done(nested.rollback())
    assert inserted() == []
    await play.commit()
    assert connection.execute("select * from shop").fetchall() == [(1,)]
    await play.emit("orders", None, "100 % 😀 '%s' $1")
    await play.commit()
    first, second = inserted()
    assert first == ("placed", '{"order":1}', "ann", None, "x", "4")
    assert second == (None, "100 % 😀 '%s' $1", None, None, None, None)


async def test_a_typed_event_says_its_queue_type_and_key(play, inserted) -> None:
    await play.emit(Placed(order=1, customer="ann"), extra2="web")
    await play.commit()
    assert inserted() == [("placed", '{"order":1,"customer":"ann"}', "ann", "web", None, None)]
    with pytest.raises(TypeError, match="give only options with it"):
        await play.emit(Placed(order=1, customer="ann"), "placed")


async def test_an_error_of_the_server_is_the_clients_and_leaves_the_transaction_usable(
    play, connection, inserted, dsn
) -> None:
    await play.emit("orders", "first", None)
    with pytest.raises(pgqpy.QueueNotFound, match="no queue 'nowhere' in this database: create"):
        await play.emit("nowhere", "placed", None)
    connection.execute("select pgq.set_queue_config('orders', 'disable_insert', '1')")
    with pgqpy.connect(dsn) as client, refused("PQ006") as usual:
        client.insert_event("orders", "placed", None)
    with refused("PQ006") as caught:
        await play.emit("orders", "placed", None)
    assert (str(caught.value), vars(caught.value)) == (str(usual.value), vars(usual.value))
    connection.execute("select pgq.set_queue_config('orders', 'disable_insert', '0')")
    await play.emit("orders", "last", None)
    await play.commit()
    assert [row[0] for row in inserted()] == ["first", "last"]


async def test_an_event_is_delayed_due_at_a_time_or_inserted_once(
    play, connection, inserted
) -> None:
    await play.emit("orders", "at", None, deliver_at=DUE)
    await play.emit("orders", "in", None, delay=dt.timedelta(days=1, seconds=0.5))
    once = [
        await play.emit("orders", "once", None, dedup_key="a", dedup_for=dt.timedelta(hours=1))
        for _ in range(2)
    ]
    await play.commit()
    assert once[0] == once[1]
    assert [row[0] for row in inserted()] == ["once"]
    (tomorrow, first), last = connection.execute(DELAYED).fetchall()
    assert (first, last) == ("in", (DUE, "at"))
    in_a_day = tomorrow - dt.datetime.now(dt.timezone.utc)
    assert dt.timedelta(hours=23) < in_a_day < dt.timedelta(hours=25)


async def test_a_payload_follows_the_rules_of_the_client(play, inserted) -> None:
    with pytest.raises(pgqpy.InvalidEvent, match=r"data \$\.price is nan"):
        await play.emit("orders", "placed", {"price": float("nan")})
    with pytest.raises(pgqpy.InvalidEvent, match="convert it, or pass json_default"):
        await play.emit("orders", "placed", {"tags": {1}})
    await play.emit(
        "orders", "placed", {"tags": {1}, "at": dt.date(2026, 1, 31)}, json_default=list
    )
    await play.commit()
    assert [row[1] for row in inserted()] == ['{"tags":[1],"at":"2026-01-31"}']


async def test_a_session_in_autocommit_is_refused(dsn, new_orders, driver, inserted) -> None:
    play = Play(dsn, driver, isolation_level="AUTOCOMMIT")
    with pytest.raises(pgqpy.WrongTransaction, match=r"pgqpy\.connect\(dsn\)\.insert_event"):
        await play.emit("orders", "placed", None)
    await play.close()
    assert inserted() == []


async def test_a_connection_and_a_scoped_session_are_taken_too(play, inserted) -> None:
    await play.emit("orders", "one", None, on=await play.done(play.session.connection()))
    kind: Any = (
        partial(async_scoped_session, scopefunc=int) if play.asynchronous else scoped_session
    )
    await play.emit("orders", "two", None, on=kind(lambda: play.session))
    await play.commit()
    assert [row[0] for row in inserted()] == ["one", "two"]


async def test_other_errors_of_the_server_are_sqlalchemys(play) -> None:
    await play.execute("set local role pgq_reader")
    with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
        await play.emit("orders", "placed", None)


def test_emit_neither_flushes_nor_expires_objects(dsn, new_orders, inserted) -> None:
    engine = sa.create_engine(url(dsn))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        order, new = Order(id=1), Order(id=2)
        session.add(order)
        session.flush()
        session.add(new)
        with pytest.raises(pgqpy.QueueNotFound):
            emit(session, "nowhere", "placed", None)
        emit(session, "orders", "placed", {"order": 1})
        assert new in session.new
        assert not sa.inspect(order).expired
        session.commit()
    engine.dispose()
    assert len(inserted()) == 1


def test_a_session_of_another_database_is_refused() -> None:
    with (
        Session(sa.create_engine("sqlite://")) as session,
        pytest.raises(pgqpy.InvalidArgument, match=r"sqlite.*pgqpy\.connect\(dsn\)\.insert_event"),
    ):
        emit(session, "orders", "placed", None)


async def test_the_wrong_call_names_the_right_one() -> None:
    insert: Any = emit
    with pytest.raises(TypeError, match=r"await aemit an AsyncSession .* class AsyncSession$"):
        insert(AsyncSession(), "orders", "placed", None)
    insert = aemit
    with pytest.raises(TypeError, match=r"emit takes a Session .* class Session$"):
        await insert(Session(), "orders", "placed", None)


@pytest.mark.parametrize("package", ["sqlalchemy", "asyncpg"])
def test_a_missing_extra_is_a_sentence(package: str) -> None:
    code = f"import sys; sys.modules['{package}'] = None\nimport pgqpy.{package}"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert f'{package} is needed: pip install "pgqpy[{package}]"' in ended.stderr
