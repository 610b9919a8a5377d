"""Events with ids of another database, inserted ahead of the ticks of an external ticker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RC, RR, refused
from tests.guarantees.test_g7_moved import MOVED

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

EXTERNAL = "select pgq.set_queue_config('q', 'external_ticker', %s)"
COPY = (
    "select pgq.insert_event_raw('q', n, now(), null, null, 't', n::text, '', '', '', '')"
    " from cast(%s as bigint) n"
)
LATER = "select pgq.event_retry_raw('q', 'c', now(), %s, now(), 0, 't', '', '', '', '', '')"
TICK = "select pgq.ticker('q', %s, now(), %s)"
IDS = range(1001, 1011)


def copied(db: Database) -> None:
    """Copy ten events at once, and then two ticks, which say that five of them came."""
    db.queue()
    db.main.one(EXTERNAL, "true")
    for number in IDS:
        db.main.one(COPY, number)
    db.main.one(TICK, 50, 1003)
    db.main.one(TICK, 51, 1005)


def test_events_ahead_of_an_external_tick_are_cancelled(db: Database) -> None:
    copied(db)
    assert db.main.all("select state from pgq.cancel_event('q', '{1008}')") == [("cancelled",)]
    assert db.main.drain() == [str(number) for number in IDS if number != 1008]


def test_tick_of_a_copy_without_its_sequences_never_falls(db: Database) -> None:
    copied(db)
    db.main.run("alter sequence pgq.event_1_id_seq restart")
    with refused("PQ012"):
        db.main.one(TICK, 52, 1007)
    db.main.one(TICK, 52, 1010)


def test_events_ahead_of_an_external_tick_are_not_new_after_a_move(db: Database) -> None:
    copied(db)
    assert len(db.main.drain()) == len(IDS)
    db.main.run(MOVED)
    db.main.one(TICK, 52, 1010)
    assert db.main.drain() == []


def test_events_that_are_written_with_their_tick_are_accepted_after_a_move(db: Database) -> None:
    """PGQ's cascading copies events and their tick in one transaction."""
    copied(db)
    db.main.drain()
    db.main.run(MOVED)
    table = db.main.current_table()
    db.main.begin()
    db.main.run(f"insert into {table} (ev_id, ev_type, ev_data) values (1500, 't', '1500')")
    db.main.one(TICK, 52, 1600)
    db.main.commit()
    db.main.one(TICK, 53, 1600)
    assert db.main.drain() == ["1500"]


@pytest.mark.parametrize("copy", [COPY, LATER])
def test_events_get_no_id_again_when_the_external_ticker_is_given_up(
    db: Database, copy: str
) -> None:
    copied(db)
    db.main.one(copy, 1020)
    db.main.one(EXTERNAL, "false")
    assert db.main.insert("local") > 1020


@pytest.mark.parametrize("copy", [COPY, LATER])
def test_id_out_of_range_is_refused_and_changes_nothing(db: Database, copy: str) -> None:
    copied(db)
    with refused("PQ009"):
        db.main.one(copy, (1 << 62) + 1)
    assert db.main.insert("local") < 1 << 62


@pytest.mark.parametrize(("isolation", "tick", "sqlstate"), [(RC, 51, "PQ009"), (RR, 52, "PQ013")])
def test_refused_tick_moves_no_sequence(
    db: Database, isolation: str, tick: int, sqlstate: str
) -> None:
    copied(db)
    db.main.begin(isolation)
    with refused(sqlstate):
        db.main.one(TICK, tick, 5000)
    db.main.rollback()
    assert db.main.one("select pgq.seq_getval('pgq.event_1_id_seq')") == IDS[-1]
