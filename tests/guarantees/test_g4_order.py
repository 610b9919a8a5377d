"""G4: who committed before another began comes in the same or an earlier batch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


def test_events_of_one_batch_are_ordered_by_id(db: Database) -> None:
    db.queue()
    one, other = db.open(), db.open()
    one.begin(RR)  # it stays with the table that was current then
    other.begin()
    for number in range(10):
        (one if number % 3 else other).insert(str(number))
        if number == 5:
            db.main.one("select pgq.maint_rotate_tables_step1('q')")
            db.main.one("select pgq.maint_rotate_tables_step2()")
    other.commit()
    one.commit()
    assert db.main.deliver() == [str(number) for number in range(10)]


def test_transactions_that_follow_each_other_keep_their_order(db: Database) -> None:
    db.queue()
    choose = random.Random(4)
    producers = [db.open() for _ in range(4)]
    tickers = [db.open() for _ in range(3)]
    for number in range(60):
        session = producers[number % 4]
        session.begin(choose.choice(("read committed", "repeatable read", "serializable")))
        session.insert(str(number))
        session.commit()
        for _ in range(choose.randrange(3)):
            choose.choice(tickers).tick()
        if number % 10 == 0:
            db.main.rotate()
    db.main.tick()
    assert db.main.drain() == [str(number) for number in range(60)]


def test_transaction_that_overlaps_a_tick_comes_after_those_before_it(db: Database) -> None:
    db.queue()
    slow, quick = db.open(), db.open()
    slow.begin()
    slow.insert("slow")  # the smallest id, and the last batch
    quick.insert("before")
    db.main.tick()
    quick.insert("between")
    db.main.tick()
    slow.commit()
    quick.insert("after")
    db.main.tick()
    batches = list(db.main.batches())
    assert batches == [["before"], ["between"], ["slow", "after"]]
