"""Parts of a batch: what finish_part finished stays finished, whoever reads the batch and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.sessions import RR, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Row, Session

FINISH_PART = "select pgq.finish_part(%s, %s)"
FENCED = "select pgq.finish_part(%s, %s, %s)"
POSITION = "select pos_no from pgq.current_position where sub_queue = 1"


def finish_part(session: Session, batch: int | None, up_to: int | None) -> int:
    """Finish a part: 1, or 0 if the batch is not open."""
    return int(session.one(FINISH_PART, batch, up_to))


def open_batch(db: Database, *data: str) -> tuple[int, list[Row]]:
    """Make a queue, and open a batch of these events."""
    db.queue()
    for each in data:
        db.main.insert(each)
    db.main.tick()
    batch = db.main.next()
    assert batch is not None
    return batch, db.main.events(batch)


def test_finished_part_is_not_delivered_again(db: Database) -> None:
    batch, events = open_batch(db, *"abcde")
    assert finish_part(db.main, batch, events[1].id) == 1
    assert db.open().next() == batch
    assert db.main.data(batch) == ["c", "d", "e"]
    assert finish_part(db.main, batch, events[3].id) == 1
    assert db.main.data(batch) == ["e"]
    assert db.main.finish(batch) == 1
    assert db.main.deliver() == []


def test_retried_copy_beside_its_event_is_finished_with_it(db: Database) -> None:
    batch, events = open_batch(db, *"ab")
    db.main.one("select pgq.event_retry(%s, %s, 0)", batch, events[0].id)
    db.main.one("select pgq.maint_retry_events()")
    tick = db.main.one("select prev_tick_id from pgq.get_batch_info(%s)", batch)
    db.main.one("select pgq.register_consumer_at('q', 'c', %s)", tick)
    for data in "cd":
        db.main.insert(data)
    db.main.tick()
    whole = db.main.one("select batch_id from pgq.next_batch_custom('q', 'c', null, 4, null)")
    assert db.main.data(whole) == ["a", "a", "b", "c", "d"]
    assert finish_part(db.main, whole, events[0].id) == 1
    assert db.main.data(whole) == ["b", "c", "d"]


@pytest.mark.parametrize(
    "call",
    [
        "select pgq.event_retry({batch}, {id}, 0)",
        "select pgq.event_retry({batch}, array[{id}], array[{txid}], '{{0s}}')",
        "select pgq.event_dead({batch}, array[{id}], array[{txid}], '{{why}}')",
    ],
)
def test_event_of_a_finished_part_cannot_be_set_aside(db: Database, call: str) -> None:
    batch, (a, b, c) = open_batch(db, *"abc")
    finish_part(db.main, batch, b.id)
    for event in (a, b):
        with refused("PQ004"):
            db.main.one(call.format(batch=batch, id=event.id, txid=event.txid))
    assert db.main.one(call.format(batch=batch, id=c.id, txid=c.txid)) == 1


def test_batch_retry_leaves_a_finished_part_alone(db: Database) -> None:
    batch, events = open_batch(db, *"abc")
    finish_part(db.main, batch, events[0].id)
    assert db.main.one("select pgq.batch_retry(%s, 0)", batch) == 2
    db.main.finish(batch)
    db.main.one("select pgq.maint_retry_events()")
    assert db.main.deliver() == ["b", "c"]


def test_part_of_a_lost_batch_is_not_finished(db: Database) -> None:
    batch, events = open_batch(db, *"ab")
    part = db.behind(lambda winner: winner.finish(batch), FINISH_PART, batch, events[0].id)
    assert part == 0
    assert db.main.deliver() == []


def test_part_with_an_old_snapshot_is_refused(db: Database) -> None:
    batch, events = open_batch(db, *"abc")
    late = db.open()
    late.begin(RR)
    assert finish_part(db.main, batch, events[1].id) == 1
    with refused("40001"):
        finish_part(late, batch, events[0].id)
    late.rollback()
    assert db.main.data(batch) == ["c"]


def test_parts_outlive_compaction_and_repair(db: Database) -> None:
    batch, events = open_batch(db, *"abcd")
    finish_part(db.main, batch, events[1].id)
    db.main.one("select pgq.maint_positions()")
    assert db.main.one("select pgq.compact_positions()")
    assert db.main.data(batch) == ["c", "d"]
    assert db.main.one("select pgq.repair_queue('q')") == 4
    assert db.main.data(db.main.next()) == ["c", "d"]  # under a new id


def test_unfinished_part_holds_its_events_against_rotation(db: Database) -> None:
    batch, events = open_batch(db, *"ab")
    finish_part(db.main, batch, events[0].id)
    for _ in range(4):
        db.main.rotate()
    assert db.main.data(batch) == ["b"]


def test_many_parts_of_a_batch_are_read_newest_first(db: Database) -> None:
    batch, events = open_batch(db, *(str(number) for number in range(50)))
    for event in events[:-1]:
        assert finish_part(db.main, batch, event.id) == 1
    assert db.main.data(batch) == ["49"]
    assert db.main.one("select count(*) from pgq.position where pos_batch = %s", batch) == 50
    assert db.main.finish(batch) == 1


@pytest.mark.parametrize(
    ("up_to", "message"),
    [
        (None, "Invalid NULL value"),
        (1, "are finished already"),
        (99, "event 99 lies beyond batch"),
    ],
)
def test_part_that_makes_no_sense_is_refused(db: Database, up_to: int | None, message: str) -> None:
    batch, _ = open_batch(db, *"abcd")
    assert finish_part(db.main, batch, 2) == 1
    with pytest.raises(psycopg.Error, match=message) as failed:
        finish_part(db.main, batch, up_to)
    assert failed.value.sqlstate == "PQ009"
    assert db.main.data(batch) == ["c", "d"]


def test_part_that_another_session_has_finished_meanwhile_is_not_finished_again(
    db: Database,
) -> None:
    batch, events = open_batch(db, *"abc")
    position = db.main.one(POSITION)
    second = db.behind(
        lambda one: one.one(FENCED, batch, events[1].id, position),
        FENCED,
        batch,
        events[1].id,
        position,
    )
    assert second == 0
    assert db.main.one(FENCED, batch, events[2].id, position) == 0
    assert db.main.data(batch) == ["c"]
    assert db.main.one(FENCED, batch, events[2].id, position + 1) == 1


def test_id_that_a_program_wrote_into_the_tables_lies_in_its_batch(db: Database) -> None:
    db.queue()
    table = db.main.current_table()
    db.main.run(f"insert into {table} (ev_id, ev_type, ev_data) values (5000, 't', 'x')")
    db.main.tick()
    batch = db.main.next()
    assert finish_part(db.main, batch, 5000) == 1
    assert db.main.data(batch) == []
