"""G6: a look for retried events costs the same however many were there, and misses none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import MORE_PAGES, RR
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

MOVE = "select pgq.maint_retry_events()"
RETRY = "select pgq.event_retry_raw('q', 'c', {}, null, now(), 1, 't', %s, '', '', '', '')"
SEEN = "pgq.due_seen_' || pg_relation_filenode('pgq.retry_queue')"


def _retry(session: Session, data: str, due: str = "now()") -> None:
    session.one(RETRY.format(due), data)


def _pages(session: Session) -> int:
    """Return how many pages a look reads; the second of two, as the first may learn something."""
    session.one(MOVE)
    return session.pages(MOVE)


def _move(db: Database) -> list[str]:
    """Move what is due, and return the events that come of it."""
    while db.main.one(MOVE):
        pass
    return db.main.deliver()


def look_first(db: Database) -> None:
    """Make a queue whose retries the main session has looked at."""
    db.queue()
    _retry(db.main, "early")
    assert _move(db) == ["early"]


@pytest.fixture
def looked(db: Database) -> Database:
    """A queue whose retries the main session has looked at before."""
    look_first(db)
    return db


def test_look_reads_no_more_pages_after_many_retries_while_xmin_is_held(looked: Database) -> None:
    looked.open().begin(RR)
    writer = looked.open()
    writer.begin()
    writer.one("select txid_current()")
    before = _pages(looked.main)
    for _ in range(5):
        looked.main.one(
            RETRY.format("now()") + " from generate_series(1, 1000) limit 1 offset 999", "x"
        )
        while looked.main.one(MOVE):
            pass
    assert looked.main.one("select count(*) from pgq.retry_queue") == 0
    assert _pages(looked.main) <= before + MORE_PAGES


def test_look_reads_no_events_of_transactions_in_progress(looked: Database) -> None:
    before = _pages(looked.main)
    other = looked.open()
    other.begin()
    other.one(RETRY.format("now()") + " from generate_series(1, 3000) offset 2999", "x")
    looked.main.one("select txid_current()")  # so that it is not the newest
    assert _pages(looked.main) <= before + MORE_PAGES
    other.commit()
    assert looked.main.one(MOVE) == 3000


def test_look_that_finds_something_reads_no_more_pages_either(looked: Database) -> None:
    looked.open().begin(RR)
    pages = []
    for _ in range(2):
        _retry(looked.main, "found")
        pages.append(looked.main.pages(MOVE))
        looked.main.one(RETRY.format("now()") + " from generate_series(1, 5000) offset 4999", "x")
        while looked.main.one(MOVE):
            pass
    assert pages[1] <= pages[0] + 3 * MORE_PAGES  # the table has three indexes


@pytest.mark.parametrize("xid", ["select 1", "select txid_current()"], ids=["later", "earlier"])
@pytest.mark.parametrize("due", ["now()", "now() - interval '1 hour'", "'-infinity'"])
def test_event_set_aside_by_a_transaction_older_than_the_look_is_found(
    looked: Database, xid: str, due: str
) -> None:
    other = looked.open()
    other.begin()
    other.one(xid)
    assert _move(looked) == []
    _retry(other, "a", due)
    looked.main.insert("something that ends meanwhile")
    assert _move(looked) == ["something that ends meanwhile"]
    other.commit()
    assert _move(looked) == ["a"]


@pytest.mark.parametrize("first", [True, False], ids=["had written", "had not"])
def test_event_set_aside_after_the_look_in_its_transaction_is_found(
    looked: Database, first: bool
) -> None:
    looked.main.begin()
    if first:
        looked.main.one("select txid_current()")
        looked.open().one("select txid_current()")  # so that ours is not the newest
    looked.main.one(MOVE)
    _retry(looked.main, "a", "now() - interval '1 second'")
    looked.main.commit()
    looked.open().one("select txid_current()")
    assert _move(looked) == ["a"]


def test_event_is_found_when_its_time_has_come(looked: Database) -> None:
    _retry(looked.main, "a", "now() + interval '300 ms'")
    assert _move(looked) == []
    assert eventually(lambda: _move(looked)) == ["a"]


def test_look_that_rolls_back_saw_nothing(looked: Database) -> None:
    _retry(looked.main, "a")
    looked.main.begin()
    assert looked.main.one(MOVE) == 1
    assert looked.main.one(MOVE) == 0
    looked.main.rollback()
    assert _move(looked) == ["a"]


def test_events_that_somebody_else_moves_are_found_when_that_fails(looked: Database) -> None:
    _retry(looked.main, "a")
    other = looked.open()
    other.begin()
    assert other.one(MOVE) == 1
    assert _move(looked) == []
    other.rollback()
    assert _move(looked) == ["a"]


def test_events_of_a_queue_that_failed_are_found_once_it_works(looked: Database) -> None:
    _retry(looked.main, "a")
    looked.main.run("alter table pgq.event_1_0 rename to hidden")
    assert looked.main.one(MOVE) == 0
    assert looked.main.one(MOVE) == 0
    looked.main.run("alter table pgq.hidden rename to event_1_0")
    assert _move(looked) == ["a"]


def test_events_are_found_after_the_clock_was_stepped_back(looked: Database) -> None:
    looked.main.one(f"""
        select set_config('{SEEN}, regexp_replace(seen, '^[^|]*',
            (now() + interval '1 hour')::text), false)
          from current_setting('{SEEN}) seen""")
    _retry(looked.main, "a")
    _retry(looked.main, "b", "now() + interval '300 ms'")
    assert _move(looked) == ["a"]
    assert eventually(lambda: _move(looked)) == ["b"]


def test_table_that_came_with_a_dump_is_looked_at_whole(looked: Database) -> None:
    _retry(looked.open(), "a", "now() - interval '1 hour'")
    looked.main.run("""
        create table kept as select * from pgq.retry_queue;
        update kept set ev_txid = 3;
        truncate pgq.retry_queue;
        insert into pgq.retry_queue select * from kept""")
    assert _move(looked) == ["a"]


def test_look_with_an_old_snapshot_hides_nothing_from_the_next(looked: Database) -> None:
    looked.main.begin(RR)
    _retry(looked.open(), "a", "now() - interval '1 hour'")
    assert looked.main.one(MOVE) == 0
    looked.main.commit()
    assert _move(looked) == ["a"]
