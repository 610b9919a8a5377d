"""G7: copies made by logical replication: without transaction ids, and with late sequences.

`replicate` writes each row again as the replication does: in a transaction of the copy, with the
transaction id of the source as `ev_txid`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.test_g7_moved import MOVED

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

REPAIR = "select pgq.repair_queue('q')"
TAKE_EVENTS = """
    with gone as (delete from pgq.event_1 returning *)
    select ev_id, ev_time::text, ev_txid, ev_owner, ev_retry, ev_type, ev_data from gone order by 1
"""
PUT_EVENT = f"insert into pgq.event_1_0 values ({', '.join(['%s'] * 7)})"
PUT_TICKS = """
    create temp table ticks as select * from pgq.tick;
    truncate pgq.tick, pgq.tick_recent;
    insert into pgq.tick_recent select * from ticks order by tick_id;
    drop table ticks
"""
LARGER_TICKS = """
    update pgq.tick set tick_snapshot = format('%1$s:%1$s:',
        1000000 + txid_snapshot_xmax(tick_snapshot))::txid_snapshot
"""


def replicate(db: Database, *, larger: int = 1_000_000) -> None:
    """Write all rows again, with larger transaction ids or with those that they have."""
    for row in db.main.all(TAKE_EVENTS):
        db.main.connection.execute(PUT_EVENT, [*row[:2], row[2] + larger, *row[3:]])
    db.main.run(PUT_TICKS)
    if larger:
        db.main.run(LARGER_TICKS)
    db.main.run(MOVED)


def story(db: Database, *data: str) -> None:
    """Insert events from id 101 on, tick after each, and let `c` finish them."""
    db.queue(consumers=("c", "behind"))
    db.main.one("select setval('pgq.event_1_id_seq', 100)")
    db.main.tick_after(*data)
    assert db.main.drain("c") == list(data)


def warnings(session: Session) -> list[str]:
    """Return a list that gets the warnings of the server from now on."""
    told: list[str] = []
    session.connection.add_notice_handler(lambda said: told.append(said.message_primary or ""))
    return told


@pytest.mark.parametrize("inserted", [0, 1, 3], ids=["none yet", "some", "all"])
@pytest.mark.parametrize("larger", [0, 1_000_000], ids=["xids behind", "xids beyond"])
def test_copy_with_late_sequences_is_named_with_its_ids_and_raised(
    db: Database, larger: int, inserted: int
) -> None:
    """The source inserted two more events after its sequences were copied, and never ticked."""
    story(db, "a", "b")
    db.main.insert("late")
    db.main.insert("later")
    replicate(db, larger=larger)
    db.main.one("select setval('pgq.event_1_id_seq', 102)")
    new = [f"new {number}" for number in range(inserted)]
    for data in new:
        db.main.insert(data)
    with pytest.raises(psycopg.Error) as caught:
        db.main.tick()
    assert caught.value.sqlstate == "PQ012"
    behind = "the sequence of events of queue q is or was behind: it gives or gave 103 to 104 again"
    assert larger or behind in str(caught.value)
    told = warnings(db.main)
    db.main.one(REPAIR)
    twice = f"queue q: events with ids from 103 to {min(102 + inserted, 104)} may be there twice"
    assert told == ([twice] if inserted else [])
    assert db.main.insert("after") > 104
    db.main.tick()
    assert sorted(db.main.drain("c")) == sorted(["late", "later", *new, "after"])
    assert sorted(db.main.drain("behind")) == sorted(["a", "b", "late", "later", *new, "after"])


def test_copy_whose_old_events_are_gone_names_the_ids_that_may_be_lost(db: Database) -> None:
    """No older event has these ids, and the last tick takes their transactions for seen."""
    story(db, "a", "b", "c")
    assert db.main.drain("behind") == ["a", "b", "c"]
    db.main.run("truncate pgq.event_1")
    replicate(db)
    db.main.one("select setval('pgq.event_1_id_seq', 100)")
    db.main.insert("lost")
    db.main.insert("lost too")
    with refused("PQ012"):
        db.main.tick()
    told = warnings(db.main)
    assert db.main.one(REPAIR) == 2
    assert told == ["queue q: events with ids from 101 to 102 may not come to every consumer"]
    assert db.main.insert("after") > 103
    assert db.main.deliver() == ["after"]


@pytest.mark.parametrize("external", ["false", "true"])
def test_ids_that_stand_twice_are_named_once_and_ids_of_another_database_never(
    db: Database, external: str
) -> None:
    story(db, "a", "b", "c")
    replicate(db)
    db.main.one("select setval('pgq.event_1_id_seq', 100)")
    db.main.insert("new")
    db.main.one("select pgq.set_queue_config('q', 'external_ticker', %s)", external)
    told = warnings(db.main)
    assert db.main.one(REPAIR) == 4
    twice = "queue q: events with ids from 101 to 101 may be there twice"
    assert told == ([twice] if external == "false" else [])


def test_copy_with_the_last_values_of_sequences_goes_on_by_itself(db: Database) -> None:
    story(db, "a", "b")
    db.main.insert("late")
    replicate(db, larger=0)
    db.main.tick_after("new")
    assert db.main.drain("c") == ["late", "new"]
