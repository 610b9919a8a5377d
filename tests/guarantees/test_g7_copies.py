"""G7: copies made by logical replication: which events were inserted there, and with which ids.

`replicate` writes each row again as the replication does: in a transaction of the copy, with the
transaction id of the source as `ev_txid`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.test_g7_moved import MOVED

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

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
TIMED = "insert into pgq.event_1_0 (ev_time, ev_type, ev_data) values ({}, 't', '{}')"
IDS = "select count(*), count(distinct ev_id) from pgq.event_1"


def replicate(db: Database, *, larger: int = 1_000_000) -> None:
    """Write all rows again, with larger transaction ids or with those that they have."""
    for row in db.main.all(TAKE_EVENTS):
        db.main.connection.execute(PUT_EVENT, [*row[:2], row[2] + larger, *row[3:]])
    db.main.run(PUT_TICKS)
    if larger:
        db.main.run(LARGER_TICKS)
    db.main.run(MOVED)


def begin_anew(db: Database) -> None:
    """Let the copy's sequences begin anew."""
    for sequence in ("event_1_id_seq", "event_1_tick_seq"):
        db.main.one("select setval(%s, 1, false)", f"pgq.{sequence}")


def story(db: Database, *data: str) -> None:
    """Insert events, tick after each, and let `c` finish them; `behind` has them to come.

    Their ids are not those that sequences that begin anew give.
    """
    db.queue(consumers=("c", "behind"))
    db.main.one("select setval('pgq.event_1_id_seq', 100)")
    for each in data:
        db.main.insert(each)
        db.main.tick()
    assert db.main.drain("c") == list(data)


def expect(db: Database, *new: str, old: tuple[str, ...]) -> None:
    """Repair; expect the new events for `c`, and all of them for `behind`, each id once."""
    db.main.one(REPAIR)
    db.main.insert("after")
    db.main.tick()
    assert sorted(db.main.drain("c")) == sorted([*new, "after"])
    assert sorted(db.main.drain("behind")) == sorted([*old, *new, "after"])
    events, ids = db.main.all(IDS)[0]
    assert events == ids == len(old) + len(new) + 1


@pytest.mark.parametrize("inserted", [0, 1, 3], ids=["none yet", "some", "all"])
@pytest.mark.parametrize("larger", [0, 1_000_000], ids=["xids behind", "xids beyond"])
def test_copy_with_old_values_of_sequences_gives_no_id_twice(
    db: Database, larger: int, inserted: int
) -> None:
    """The source inserted two more events after its sequences were copied, and never ticked."""
    story(db, "a", "b")
    old = db.main.one("select last_value from pgq.event_1_id_seq")
    db.main.insert("late")
    db.main.insert("later")
    replicate(db, larger=larger)
    db.main.one("select setval('pgq.event_1_id_seq', %s)", old)
    new = [f"new {number}" for number in range(inserted)]
    for data in new:
        db.main.insert(data)
    with refused("PQ012"):
        db.main.tick()
    expect(db, "late", "later", *new, old=("a", "b"))


def test_copy_with_the_last_values_of_sequences_goes_on_by_itself(db: Database) -> None:
    story(db, "a", "b")
    db.main.insert("late")
    replicate(db, larger=0)
    db.main.insert("new")
    db.main.tick()
    assert db.main.drain("c") == ["late", "new"]


def test_events_of_a_copy_are_told_whatever_their_time_is(db: Database) -> None:
    story(db, "a", "b")
    db.main.run(TIMED.format("'infinity'", "had, in the future"))
    db.main.run(TIMED.format("now() + interval '1 minute'", "had, soon"))
    db.main.tick()
    assert len(db.main.drain("c")) == 2
    replicate(db)
    begin_anew(db)
    db.main.copy(db.main.current_table(), "copied")
    db.main.run(TIMED.format("now() - interval '1 day'", "of yesterday"))
    db.main.begin()
    db.main.one("select txid_current()")
    db.main.run("savepoint s")
    db.main.run(TIMED.format("now() - interval '1 day'", "in a savepoint"))
    db.main.run("release s")
    db.main.commit()
    db.main.all("select pgq.insert_events('q', '{t,t}', '{x,y}')")
    old = ("a", "b", "had, in the future", "had, soon")
    expect(db, "copied", "of yesterday", "in a savepoint", "x", "y", old=old)


def test_events_are_told_where_nothing_of_the_source_is_left(db: Database) -> None:
    story(db, "a", "b")
    db.main.drain("behind")
    db.main.run("truncate pgq.event_1")
    replicate(db)
    begin_anew(db)
    for data in "xyz":
        db.main.insert(data)
    db.main.one("select setval('pgq.event_1_id_seq', 200)")  # as many as the source ever had
    expect(db, "x", "y", "z", old=())


def test_rows_that_one_transaction_copied_are_no_new_events(db: Database) -> None:
    """Their transaction ids are those that the copy used up while it was made."""
    story(db, "a", "b")
    replicate(db)
    begin_anew(db)
    used = [db.main.one("select txid_current()") for _ in "ab"]
    for txid, data in zip(used, "ab", strict=True):
        row = "update pgq.event_1 set ev_txid = %s where ev_data = %s"
        db.main.connection.execute(row, [txid, data])
    db.main.run("update pgq.event_1 set ev_data = ev_data")  # one transaction writes both rows
    db.main.insert("new")
    db.main.one(REPAIR)
    assert db.main.deliver() == ["new"]


def test_events_are_told_after_the_last_tick_was_compacted(db: Database) -> None:
    story(db, "a", "b")
    replicate(db)
    begin_anew(db)
    db.main.run(TIMED.format("now() - interval '1 day'", "of yesterday"))
    db.main.run(PUT_TICKS)
    expect(db, "of yesterday", old=("a", "b"))


def doubts(db: Database) -> list[str]:
    """Return the list of warnings, which a repair fills."""
    told: list[str] = []
    db.main.connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    return told


def test_physical_copy_that_was_replicated_further_delivers_nothing_again(db: Database) -> None:
    """As pg_createsubscriber makes it: the source's own rows, then the sequences stay behind."""
    story(db, "a", "b")
    db.main.one("select setval('pgq.event_1_tick_seq', 1)")
    db.main.run(PUT_TICKS)
    db.main.insert("new")
    told = doubts(db)
    expect(db, "new", old=("a", "b"))
    assert told == ["queue q: 0 event(s) may come twice, 2 may never come"]


def test_events_that_nothing_but_their_time_tells_are_counted(db: Database) -> None:
    story(db, "a", "b")
    replicate(db)
    begin_anew(db)
    db.main.begin()
    db.main.one("select txid_current()")
    db.main.run("savepoint s")
    db.main.insert("in a savepoint")
    db.main.commit()
    db.main.run(PUT_TICKS)
    told = doubts(db)
    expect(db, "in a savepoint", old=("a", "b"))
    assert told == ["queue q: 1 event(s) may come twice, 0 may never come"]


def test_stage_of_the_source_hides_no_event_of_the_copy(db: Database) -> None:
    story(db, "a", "b")
    replicate(db)
    begin_anew(db)
    db.main.insert("new")
    db.main.run("""
        insert into pgq.stage (stage_queue, stage_txid, stage_id, stage_writer, stage_time)
        select 1, ev_txid, 1, 'w', now() - interval '1 hour'
          from pgq.event_1 where ev_data = 'new'""")
    expect(db, "new", old=("a", "b"))
