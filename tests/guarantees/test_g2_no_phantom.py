"""G2: what rolled back, a savepoint too, is never delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import ISOLATIONS, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

EVERY_ISOLATION = pytest.mark.parametrize("isolation", ISOLATIONS)


@EVERY_ISOLATION
def test_rolled_back_transaction_leaves_nothing(db: Database, isolation: str) -> None:
    db.queue()
    producer = db.open()
    producer.begin(isolation)
    producer.insert("never")
    db.main.tick()
    producer.rollback()
    assert db.main.deliver() == []


@EVERY_ISOLATION
def test_rolled_back_savepoint_leaves_nothing(db: Database, isolation: str) -> None:
    db.queue()
    producer = db.open()
    producer.begin(isolation)
    producer.insert("kept")
    producer.run("savepoint one")
    producer.insert("never")
    db.main.tick()
    producer.run("savepoint two")
    producer.copy(producer.current_table(), "never either")
    producer.run("rollback to one")
    producer.insert("kept too")
    producer.commit()
    assert db.main.deliver() == ["kept", "kept too"]


def test_savepoint_rolled_back_by_an_error_leaves_nothing(db: Database) -> None:
    db.queue()
    db.main.run("""
        do $$
        begin
            for number in 1 .. 200 loop
                begin
                    perform pgq.insert_event('q', 't', number::text);
                    if number % 2 = 0 then
                        raise division_by_zero;
                    end if;
                exception when division_by_zero then null;
                end;
            end loop;
        end $$""")
    assert db.main.deliver() == [str(number) for number in range(1, 200, 2)]


def test_prepared_transaction_rolled_back_leaves_nothing(db: Database) -> None:
    db.queue()
    producer = db.open()
    producer.begin()
    producer.insert("never")
    producer.run("prepare transaction 'never'")
    db.main.tick()
    producer.run("rollback prepared 'never'")
    assert db.main.deliver() == []


def test_killed_producer_leaves_nothing(db: Database) -> None:
    db.queue()
    producer = db.open()
    producer.begin()
    producer.insert("never")
    with refused("57P01"):
        producer.one("select pg_terminate_backend(pg_backend_pid())")
    assert db.main.deliver() == []


def test_retry_that_rolled_back_brings_nothing_back(db: Database) -> None:
    db.queue()
    db.main.tick_after("once")
    batch = db.main.next()
    consumer = db.open()
    consumer.begin()
    consumer.one("select pgq.batch_retry(%s, 0)", batch)
    consumer.rollback()
    assert db.main.finish(batch) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 0
    assert db.main.deliver() == []
