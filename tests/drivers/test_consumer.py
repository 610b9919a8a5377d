"""SQLAlchemyConsumer: handlers with a session, each effect once."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

import pgqpy
from pgqpy.sqlalchemy import AsyncSQLAlchemyConsumer, SQLAlchemyConsumer, aemit
from tests.support.gates import shut_gate

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

COLLIDE = "do $$ begin raise exception 'x' using errcode = '40001'; end $$"


class Base(DeclarativeBase):
    pass


class Seen(Base):
    __tablename__ = "seen"
    id: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[str]


class Play:
    """A consumer whose handler is a generator of what is done with the session."""

    def __init__(self, dsn: str, connection: psycopg.Connection[Any], *, tasks: bool) -> None:
        self.dsn, self.connection, self.tasks = dsn, connection, tasks
        connection.execute("create table seen (id serial primary key, data text)")

    def insert(self, *datas: str) -> None:
        with pgqpy.connect(self.dsn) as client:
            events = [("test", data, str(ord(data[0]) % 2)) for data in datas]
            client.insert_events("orders", events)

    def make(self, handler: Callable[..., Any], batch: bool = False, **settings: Any) -> Any:
        name = "process_batch" if batch else "process_event"
        sync: Any = (SQLAlchemyConsumer, lambda _self, given, session: handler(given, session))

        async def method(_self: object, given: Any, session: AsyncSession) -> None:
            if batch:
                given = [event async for event in given]
            await session.run_sync(lambda inner: handler(given, inner))

        base, function = (AsyncSQLAlchemyConsumer, method) if self.tasks else sync
        places = {"queue": "orders", "name": "billing", "backoff": (0, 0)}
        return type("Made", (base,), {**places, name: function})(self.dsn, **settings)

    def drain(self, consumer: Any, **options: Any) -> Any:
        found = consumer.drain(**options)
        return asyncio.run(found) if self.tasks else found

    def run(self, handler: Callable[..., Any], *datas: str, **settings: Any) -> Any:
        self.insert(*datas)
        return self.drain(self.make(handler, **settings), retries=True)

    def seen(self) -> list[str]:
        return [row[0] for row in self.connection.execute("select data from seen order by id")]


@pytest.fixture(params=["threads", "asyncio"])
def play(request: Any, dsn: str, new_orders: str, connection: psycopg.Connection[Any]) -> Play:
    return Play(dsn, connection, tasks=request.param == "asyncio")


def test_what_a_handler_adds_is_flushed_and_committed_with_its_events(play) -> None:
    done = play.run(lambda event, session: session.add(Seen(data=event.data)), "a", "b", "c")
    assert (done.handled, play.seen()) == (3, ["a", "b", "c"])


def test_an_exception_undoes_its_own_event_only_and_the_event_comes_again(play) -> None:
    calls = []

    def handler(event: Any, session: Session) -> None:
        calls.append(event.data)
        session.add(Seen(data=event.data))
        session.flush()
        if event.data == "b" and calls.count("b") < 3:
            raise LookupError

    done = play.run(handler, "a", "b", "c")
    assert (done.retried, play.seen()) == (1, ["a", "c", "b"])


def test_commit_in_a_handler_commits_nothing_yet_and_rollback_undoes_its_event_only(play) -> None:
    looks = []

    def handler(event: Any, session: Session) -> None:
        session.add(Seen(data=event.data))
        session.flush()
        if event.data == "b":
            session.rollback()
        session.commit()
        looks.append(play.seen())
        session.add(Seen(data=event.data * 2))

    play.run(handler, "a", "b")
    assert looks == [[], []]
    assert play.seen() == ["a", "aa", "bb"]


def test_a_flush_that_fails_is_its_events_failure(play) -> None:
    def handler(event: Any, session: Session) -> None:
        session.add(Seen(id=None if event.data == "a" else 7, data=event.data))

    done = play.run(handler, "a", "b", "c", max_retries=0)
    assert (done.dead, play.seen()) == (1, ["a", "b"])
    (reason,) = play.connection.execute("select dead_error from pgq.dead_event").fetchone()
    assert reason == "sqlalchemy.exc.IntegrityError"


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_a_handler_that_ends_the_transaction_below_the_session_is_refused(play, how) -> None:
    def handler(event: Any, session: Session) -> None:
        session.add(Seen(data=event.data))
        session.flush()
        getattr(session.connection().connection, how)()

    with pytest.raises(pgqpy.WrongTransaction, match="a handler ended the transaction"):
        play.run(handler, "a")
    assert play.seen() == []


def test_nothing_of_a_session_goes_on_to_the_next_event(play) -> None:
    kept: list[Session] = []

    def handler(event: Any, session: Session) -> None:
        assert session.identity_map.values() == []
        for other in kept:
            with pytest.raises(sa.exc.ResourceClosedError):
                other.execute(sa.text("select 1"))
        kept.append(session)
        raw: Any = session.connection().connection.driver_connection
        session.add(Seen(data=f"{event.data}{len(raw._notice_handlers)}"))

    play.run(handler, "a", "b")
    assert play.seen() == ["a0", "b0"]


def test_a_collision_repeats_the_transaction_and_is_no_failure(play) -> None:
    calls = []

    def handler(event: Any, session: Session) -> None:
        calls.append(event.data)
        session.add(Seen(data=event.data))
        with session.begin_nested():
            if len(calls) < 4:
                session.execute(sa.text(COLLIDE))

    done = play.run(handler, "a", "b", max_retries=0)
    assert (calls, done.dead, play.seen()) == ([*"aaaab"], 0, ["a", "b"])


def test_a_lost_connection_is_replaced_and_the_batch_comes_again(play) -> None:
    calls = []

    def handler(event: Any, session: Session) -> None:
        calls.append(event.data)
        session.add(Seen(data=event.data))
        session.flush()
        if calls == ["a", "b"]:
            session.execute(sa.text("select pg_terminate_backend(pg_backend_pid())"))

    play.run(handler, "a", "b")
    assert (calls, play.seen()) == ([*"abab"], ["a", "b"])


def test_process_batch_gets_a_session_of_ones_own_sessionmaker(play) -> None:
    sessions: Any = async_sessionmaker if play.tasks else sessionmaker

    def handler(batch: Any, session: Session) -> None:
        session.add_all([Seen(data=event.data + session.info["tenant"]) for event in batch])

    play.insert("a", "b")
    consumer = play.make(handler, batch=True)
    type(consumer).sessions = sessions(info={"tenant": "7"})
    assert play.drain(consumer).handled == 2
    assert play.seen() == ["a7", "b7"]


def test_handlers_of_a_shared_consumer_have_a_session_each_and_park(play) -> None:
    play.connection.execute("select pgq.set_consumer_mode('orders', 'billing', 'shared', 'extra1')")

    def handler(event: Any, session: Session) -> None:
        session.add(Seen(data=event.data))
        session.flush()
        if event.data == "a" and not event.retry:
            raise LookupError

    play.run(handler, *"abcdef", key="extra1", on_error="park", concurrency=4)
    assert sorted(play.seen()) == [*"abcdef"]
    assert [data for data in play.seen() if data in "ace"] == [*"ace"]


def test_the_wrong_handler_is_named(play) -> None:
    with pytest.raises(TypeError, match=r"must take \(self, event, session\)"):
        type("Made", (SQLAlchemyConsumer,), {"process_event": lambda self, event: None})(
            play.dsn, queue="orders", name="billing"
        )


PROGRAM = """
import sys
import sqlalchemy as sa
from pgqpy.sqlalchemy import SQLAlchemyConsumer

class Counting(SQLAlchemyConsumer):
    queue, name, part_size = "orders", "billing", 2

    def process_event(self, event, session):
        session.execute(sa.text("insert into seen (data) values (:data)"), {"data": event.data})
        session.commit()
        if event.data == "d":
            session.execute(sa.text(sys.argv[2]))

Counting(sys.argv[1]).run()
"""


def test_each_event_counts_once_after_sigkill(dsn, new_orders, connection, connect, spawn) -> None:
    play = Play(dsn, connection, tasks=False)
    play.insert(*"abcdef")
    with pgqpy.connect(dsn) as client:
        client.tick_queue("orders")
    with shut_gate(connect()) as gate:
        process = spawn("-c", PROGRAM, dsn, gate.wait_sql)
        gate.wait_for_arrival()
        assert play.seen() == ["a", "b"]
        process.signal(signal.SIGKILL)
        process.popen.wait()
    play.drain(play.make(lambda event, session: session.add(Seen(data=event.data))))
    assert play.seen() == [*"abcdef"]


async def test_async_handlers_use_the_session_and_aemit(dsn, new_orders, connection) -> None:
    connection.execute("create table seen (id serial primary key, data text)")

    class Copies(AsyncSQLAlchemyConsumer):
        queue, name = "orders", "billing"

        async def process_event(self, event, session):
            session.add(Seen(data=event.data))
            await session.flush()
            if event.type == "first":
                await aemit(session, "orders", "second", "b")

    async with await pgqpy.connect_async(dsn) as client:
        await client.insert_event("orders", "first", "a")
    done = await Copies(dsn).drain()
    assert done.handled == 2
    assert connection.execute("select data from seen order by id").fetchall() == [("a",), ("b",)]
