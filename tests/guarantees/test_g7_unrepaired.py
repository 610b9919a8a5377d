"""G7: between a restore and its repair, the ticks of the other cluster decide nothing.

Nobody gets events by them, and no event is truncated by them.

The restore is told by its traces, as in `test_g7_moved.py`: the ids of the last tick and of the
events before it lie far beyond this cluster's, or have been reached since. A consumer is behind,
so its backlog spans the ids that this cluster gives to new events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgqpy import DatabaseRestored
from pgqpy.consumers import Consumer, TransactionalConsumer
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

REPAIR = "select pgq.repair_queue('q')"
# The ids of the dump were larger by a million; the ticks of the consumer "behind" stay.
LARGER = """
    update pgq.event_1 set ev_txid = ev_txid + 1000000;
    update pgq.tick
       set tick_snapshot = format('%s:%s:', 1000000 + txid_snapshot_xmin(tick_snapshot),
               1000000 + txid_snapshot_xmax(tick_snapshot))::txid_snapshot
     where tick_id > (select min(sub_last_tick) from pgq.subscription)
"""
# The ids have been reached since the restore.
REACHED = """
    update pgq.tick
       set tick_snapshot = format('%1$s:%1$s:', txid_snapshot_xmax(txid_current_snapshot()))
            ::txid_snapshot
     where tick_id = (select max(tick_id) from pgq.tick where tick_queue = 1)
"""
ELSEWHERE = "update pgq.queue set queue_system_id = 1"
SAME = "update pgq.queue set queue_system_id = queue_system_id"  # a restore writes it all the same
CONSUMERS = ("c", "behind")


def reach(db: Database) -> None:
    """Restore a dump whose ids this cluster reaches after the insert that follows."""
    db.main.run(ELSEWHERE)
    db.main.insert("since")
    db.main.run(REACHED)


def larger(db: Database) -> None:
    db.main.run(LARGER)
    db.main.run(SAME)
    db.main.insert("since")


def larger_elsewhere(db: Database) -> None:
    db.main.run(LARGER)
    db.main.run(ELSEWHERE)
    db.main.insert("since")


RESTORES = pytest.mark.parametrize("restore", [larger, larger_elsewhere, reach])


def _story(db: Database) -> None:
    """Let "behind" wait before two events, and "c" after them."""
    db.queue(consumers=CONSUMERS)
    db.main.insert("a")
    db.main.insert("b")
    assert db.main.deliver() == ["a", "b"]


def _expect_each_once_after_the_repair(db: Database, *behind: str) -> None:
    db.main.one(REPAIR)
    db.main.tick_after("after")
    given = {consumer: sorted(db.main.drain(consumer)) for consumer in CONSUMERS}
    assert given == {"c": ["after", "since"], "behind": sorted([*behind, "after", "since"])}


REFUSED = {
    "events": "select count(*) from pgq.get_batch_events(%(batch)s)",
    "query": "select pgq.batch_event_sql(%(batch)s)",
    "cursor": "select count(*) from pgq.get_batch_cursor(%(batch)s, 'all', 10)",
    "retry": "select pgq.event_retry(%(batch)s, 3, 0)",
    "batch retry": "select pgq.batch_retry(%(batch)s, 0)",
    "dead": "select pgq.event_dead(%(batch)s, array[3], array[3], array['why'])",
    "range": "select count(*) from pgq.get_tick_events('q', %(first)s, %(last)s)",
    "range's query": "select pgq.tick_event_sql('q', %(first)s, %(last)s)",
    "seek": "select pgq.seek_consumer('q', 'c', %(first)s)",
}


@RESTORES
def test_queue_of_a_restored_dump_is_neither_read_nor_sought_until_repaired(
    db: Database, restore: Any
) -> None:
    _story(db)
    restore(db)
    first = db.main.one("select min(sub_last_tick) from pgq.subscription")
    last = db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
    names = {"batch": db.main.next("behind"), "first": first, "last": last}
    for call in REFUSED.values():
        reader = db.open().connection
        reader.execute("begin")
        with refused("PQ012"):
            reader.execute(call.encode(), names)
        reader.execute("rollback")
    with refused("PQ012"):
        db.main.tick()
    _expect_each_once_after_the_repair(db, "a", "b")


@RESTORES
def test_backlog_of_a_restored_dump_is_not_skipped_until_repaired(
    db: Database, restore: Any
) -> None:
    _story(db)
    chosen = '{"types": ["other"]}'
    assert db.main.one("select pgq.set_consumer_filter('q', 'behind', %s::jsonb)", chosen) == 1
    restore(db)
    with refused("PQ012"):
        db.open().next("behind")
    assert db.main.one("select pgq.set_consumer_filter('q', 'behind', null)") == 1
    _expect_each_once_after_the_repair(db, "a", "b")


def test_backlog_whose_own_ticks_are_reached_is_not_read_before_the_last_one_is(
    db: Database,
) -> None:
    """The batch ends at ids that this cluster has used up; only later ticks tell of the restore."""
    _story(db)
    db.main.insert("c")
    assert db.main.deliver() == ["c"]
    db.main.run("""
        update pgq.tick set tick_snapshot = format('%1$s:%1$s:',
               1000000 + txid_snapshot_xmax(tick_snapshot))::txid_snapshot
         where tick_id = (select max(tick_id) from pgq.tick where tick_queue = 1)""")
    db.main.run(SAME)
    batch = db.main.next("behind")
    with refused("PQ012"):
        db.main.data(batch)


@RESTORES
def test_rotation_truncates_nothing_of_a_restored_queue(db: Database, restore: Any) -> None:
    _story(db)
    assert db.main.drain("behind") == ["a", "b"]  # so no consumer holds rotation back
    db.queue("sound", rotation_period="0")
    restore(db)
    for _ in range(4):
        with refused("PQ012"):
            db.main.rotate()
        db.main.rotate("sound")  # goes on
    assert db.main.one("select queue_cur_table from pgq.queue where queue_name = 'sound'") == 1
    _expect_each_once_after_the_repair(db)


def test_retried_events_of_a_restored_queue_wait_for_the_repair(db: Database) -> None:
    _story(db)
    batch = db.main.next("behind")
    assert db.main.one("select pgq.batch_retry(%s, 0)", batch) == 2
    assert db.main.finish(batch) == 1
    reach(db)
    assert db.main.one("select pgq.maint_retry_events()") == 0
    db.main.one(REPAIR)
    assert db.main.one("select pgq.maint_retry_events()") == 2
    db.main.tick()
    assert sorted(db.main.drain("behind")) == ["a", "b", "since"]


def test_consumer_that_registers_before_the_repair_changes_no_tick(db: Database) -> None:
    _story(db)
    older = db.main.one("select txid_current()")
    db.main.run(LARGER)
    # the last tick knew a long transaction, and sees all others that this cluster gives next
    snapshot = f"update pgq.tick set tick_snapshot = '{older}:9000000:{older}' where tick_id > 1"
    db.main.run(snapshot)
    db.main.run(ELSEWHERE)
    db.main.begin()
    db.main.one("select pgq.register_consumer('q', 'new')")
    ticks = "select tick_snapshot::text from pgq.tick order by tick_id desc limit 1"
    assert db.main.one(ticks) == f"{older}:9000000:{older}"
    db.main.commit()


def test_reader_that_comes_during_the_repair_is_told_to_open_its_batch_again(db: Database) -> None:
    _story(db)
    batch = db.main.next("behind")
    larger(db)
    admin, reader = db.open(), db.open()
    admin.begin()
    admin.one(REPAIR)
    text = "select string_agg(ev_data, ' ') from pgq.get_batch_events(%s)"
    given = reader.later(text, batch)
    wait_until_blocked(db.main.connection, reader.pid)
    admin.commit()
    with refused("PQ003"):  # else it would look for ids of before the repair
        given.result(timeout=30)
    assert reader.finish(batch) == 0
    assert reader.data(reader.next("behind")) == ["a", "b"]


def test_sound_move_is_read_and_rotated_before_its_first_tick(db: Database) -> None:
    """As after pg_upgrade: nothing waits for the ticker."""
    _story(db)
    db.main.run(ELSEWHERE)
    db.main.insert("since")
    upgraded = db.open()
    upgraded.begin()
    upgraded.insert("of the reader")
    batch = upgraded.next("behind")
    assert upgraded.data(batch) == ["a", "b"]
    assert upgraded.finish(batch) == 1
    upgraded.commit()
    assert upgraded.all("select ev_data from pgq.get_tick_events('q', 1, 2)") == [("a",), ("b",)]
    assert upgraded.rotate() == 1
    assert sorted(upgraded.deliver()) == ["of the reader", "since"]
    assert sorted(upgraded.drain("behind")) == ["of the reader", "since"]


def test_reader_checks_again_after_a_change_of_the_queue(db: Database) -> None:
    _story(db)
    batch = db.main.next("behind")
    reader: Session = db.open()
    assert reader.data(batch) == ["a", "b"]
    larger_elsewhere(db)  # as if the tables were loaded from a dump under the reader's session
    with refused("PQ012"):
        reader.data(batch)


@pytest.mark.parametrize("transactional", [False, True])
def test_consumer_ends_with_what_to_do_and_goes_on_after_the_repair(
    db: Database, *, transactional: bool
) -> None:
    _story(db)
    seen: list[str | None] = []

    class Behind(TransactionalConsumer if transactional else Consumer):  # type: ignore[misc]  # which kind
        queue = "q"
        name = "behind"

        def process_event(self, event: Any, *_connection: Any) -> None:
            seen.append(event.data)
            if event.data == "since":
                self.stop()

    larger(db)
    for _ in range(2):
        with pytest.raises(DatabaseRestored, match="repair_queue"):
            Behind(db.dsn).run()
    assert seen == []
    died = "select count(*) from pgq.current_position where pos_attempts > 1"
    assert db.main.one(died) == 0  # these ends count against no event
    db.main.one(REPAIR)
    db.main.tick()
    Behind(db.dsn).run()
    assert seen == ["a", "b", "since"]


RAW_EVENT = "select pgq.insert_event_raw('q', %s, null, null, 0, 't', 'raw', '', '', '', '')"


@pytest.mark.parametrize("restore", [larger, larger_elsewhere])
def test_event_with_an_older_id_waits_for_the_repair(db: Database, restore: Any) -> None:
    db.queue(consumers=CONSUMERS)
    older = db.main.one("select nextval('pgq.event_1_id_seq')")
    db.main.insert("newer")
    assert db.main.deliver() == ["newer"]
    restore(db)
    with refused("PQ012"):
        db.main.one(RAW_EVENT, older)
    db.main.one(REPAIR)
    assert db.main.one(RAW_EVENT, older) == older
    db.main.tick()
    assert sorted(db.main.drain("c")) == ["raw", "since"]


def test_event_with_an_older_id_waits_for_the_ticks_of_a_restore(db: Database) -> None:
    db.queue()
    older = db.main.one("select nextval('pgq.event_1_id_seq')")
    db.main.run("delete from pgq.tick; update pgq.queue set queue_system_id = 1")
    with refused("PQ012"):
        db.main.one(RAW_EVENT, older)


def test_retried_events_do_not_come_beside_their_events_after_a_seek(db: Database) -> None:
    db.queue(consumers=CONSUMERS)
    db.main.tick_after("a")
    batch = db.main.next("c")
    db.main.one("select pgq.batch_retry(%s, 0)", batch)
    db.main.finish(batch)
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.tick()
    larger(db)
    seek = "select pgq.seek_consumer('q', 'c', 1)"
    with refused("PQ012"):
        db.main.one(seek)
    db.main.one(REPAIR)
    db.main.one(seek)
    db.main.tick()
    assert sorted(db.main.drain("c")) == ["a", "since"]
