"""Keys of events beside stages, drop_queue, cancellations, delays, and when they are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.dedup import CLEAN, EXPIRE, ONCE, keys, once, read
from tests.guarantees.delayed import move
from tests.guarantees.sessions import MORE_PAGES, RR, Database, refused
from tests.guarantees.stages import open_stage
from tests.guarantees.test_faults_drop import DROP
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


MANY = """
    insert into pgq.dedup_key (dedup_queue, dedup_key, dedup_until, dedup_ev_id)
    select 1, n::text, clock_timestamp() - interval '1 h' + n * interval '1 us', n
      from generate_series(1, {}) n
"""


def test_stage_takes_no_key_in_either_order(db: Database) -> None:
    db.queue()
    db.queue("other")
    db.main.begin()
    open_stage(db.main)
    assert db.main.one(ONCE.replace("'q'", "'other'"), "k", "a")
    with refused("PQ009"):
        once(db.main, "b")
    db.main.rollback()
    db.main.begin()
    db.main.run("savepoint s")
    once(db.main, "c")
    db.main.run("savepoint t")
    with refused("PQ009"):
        open_stage(db.main)
    db.main.run("rollback to s")
    assert open_stage(db.main) is not None
    db.main.commit()
    assert keys(db.main) == []
    once(db.main, "d")
    db.main.begin()
    assert open_stage(db.main) is not None, "another transaction took the key"
    db.main.commit()
    assert db.main.deliver() == ["d"]


def test_drop_waits_for_an_open_call_and_leaves_no_key(db: Database) -> None:
    db.queue()
    db.queue("other")
    once(db.main, "a", "old")
    db.main.run(EXPIRE)
    db.main.one(ONCE.replace("'q'", "'other'"), "kept", "a")
    caller, admin = db.open(), db.open()
    caller.begin()
    once(caller, "b")
    dropped = admin.later(DROP)
    assert wait_until_blocked(db.main.connection, admin.pid) == [caller.pid]
    once(caller, "c", "old")
    once(caller, "d", "new")
    caller.commit()
    assert dropped.result(30) == 1
    assert keys(db.main) == ["kept"]
    with refused("PQ001"):
        once(caller, "e")


def test_drop_and_a_call_that_renews_a_key_do_not_deadlock(db: Database) -> None:
    db.queue()
    once(db.main, "a")
    db.main.run(EXPIRE)
    cleaner, caller, admin = db.open(), db.open(), db.open()
    cleaner.begin()
    cleaner.one("select from pgq.dedup_key for update")
    call = caller.later(ONCE, "k", "b")
    assert wait_until_blocked(db.main.connection, caller.pid) == [cleaner.pid]
    dropped = admin.later(DROP)
    assert wait_until_blocked(db.main.connection, admin.pid) == [caller.pid]
    held = "select count(*) from pg_locks where relation = 'pgq.event_1_0'::regclass and pid = %s"
    assert db.main.one(held, caller.pid) == 1, "drop_queue waits for the table, as for any producer"
    cleaner.commit()
    assert read(call.result(30))[1]
    assert dropped.result(30) == 1
    assert keys(db.main) == []


def test_repair_gives_no_event_the_id_that_a_key_names(db: Database) -> None:
    db.queue()
    db.main.insert("a")
    ev_id, _ = once(db.main, "b")
    db.main.deliver()
    db.main.run("truncate pgq.event_1")  # rotated away
    db.main.one("select setval('pgq.event_1_id_seq', 1, false)")
    db.main.run("update pgq.tick set tick_event_seq = 1")  # the key is newer than the last tick
    db.main.one("select pgq.repair_queue('q')")
    assert db.main.insert("c") > ev_id
    assert once(db.main, "d") == (ev_id, False)


def test_expired_keys_are_deleted_in_bounded_calls(db: Database) -> None:
    db.queue()
    db.main.run(MANY.format(5000))
    once(db.main, "a", "kept")
    assert "pgq.maint_dedup_keys" in {
        name for (name,) in db.main.all("select func_name from pgq.maint_operations()")
    }
    left = []
    while db.main.one(CLEAN):
        left.append(len(keys(db.main)))
    assert left == [3001, 1001]
    assert keys(db.main) == ["kept"]


def test_round_never_walks_over_what_it_has_deleted_while_xmin_is_held(db: Database) -> None:
    db.queue()
    db.open().begin(RR)
    db.main.run(MANY.format(6500))
    pages = [db.main.pages(CLEAN) for _ in range(3)]
    assert pages[2] <= pages[1] + MORE_PAGES
    assert len(keys(db.main)) == 500


def test_lookup_reads_no_more_pages_beside_a_million_dead_keys(db: Database) -> None:
    db.queue()
    once(db.main, "a")
    call = "select pgq.insert_event_once('q', 'k', '1 h', 't', 'd')"
    db.main.one(call)
    before = db.main.pages(call)
    db.open().begin(RR)
    db.main.run(MANY.format(20_000))
    while db.main.one(CLEAN):
        pass
    assert keys(db.main) == ["k"]
    assert db.main.pages(call) <= before + MORE_PAGES
    new = db.main.pages(call.replace("'k'", "'9999'"))
    assert new <= 10 * MORE_PAGES


def test_row_committed_late_is_deleted_in_the_next_round(db: Database) -> None:
    db.queue()
    late = db.open()
    late.begin()
    late.run(MANY.format(1))
    db.main.run(MANY.format(3000).replace("n::text", "n || 'x'"))
    assert db.main.one(CLEAN) == 1
    late.commit()
    assert db.main.one(CLEAN) == 0
    assert keys(db.main) == ["1"]
    assert db.main.one(CLEAN) == 0
    assert keys(db.main) == []
    assert read(db.main.one(ONCE, "1", "a"))[1]


CANCEL = "select array_agg(state order by state) from pgq.cancel_event('q', array[%s]::bigint[])"


def test_event_that_nobody_gets_frees_its_key_with_the_transaction(db: Database) -> None:
    db.queue()
    db.queue("other", consumers=())
    ev_id, _ = once(db.main, "a")
    db.main.one("select pgq.insert_event_once('other', 'same id', '1 h', 't', 'd')")
    db.main.begin()
    assert db.main.one(CANCEL, ev_id) == ["cancelled"]
    assert once(db.main, "b")[1]
    db.main.rollback()
    assert once(db.main, "c") == (ev_id, False)
    db.main.one(CANCEL, ev_id)
    assert keys(db.main) == ["same id"]
    assert once(db.main, "d")[1]
    assert db.main.deliver() == ["d"]


def test_event_that_one_consumer_has_had_keeps_its_key(db: Database) -> None:
    db.queue(consumers=("c", "late"))
    ev_id, _ = once(db.main, "a")
    db.main.deliver("c")
    assert db.main.one(CANCEL, ev_id) == ["cancelled", "delivered"]
    assert once(db.main, "b") == (ev_id, False)
    assert db.main.one("select state from pgq.skip_event('q', 'late', array[%s])", ev_id)
    assert keys(db.main) == ["k"]


def test_cancel_waits_for_no_key_that_is_taken_anew(db: Database) -> None:
    db.queue()
    ev_id, _ = once(db.main, "a")
    db.main.run(EXPIRE)
    caller = db.open()
    caller.begin()
    new, _ = once(caller, "b")
    db.main.run("set lock_timeout = '2 s'")
    assert db.main.one(CANCEL, ev_id) == ["cancelled"]
    caller.commit()
    assert once(db.main, "c") == (new, False)
    assert db.main.deliver() == ["b"]


AT = """
    select pgq.insert_event_once('q', %s, '1 hour', 't', %s, i_deliver_at => %s::timestamptz)::text
"""
WAITING = "select count(*) from pgq.delayed_event"


def test_delayed_event_comes_once_with_the_id_that_each_call_returned(db: Database) -> None:
    db.queue()
    time = "2099-01-01"
    first, is_new = read(db.main.one(AT, "k", "a", time))
    assert is_new
    assert read(db.main.one(AT, "k", "b", time)) == (first, False)
    assert once(db.main, "c") == (first, False)
    assert db.main.one(WAITING) == 1
    assert db.main.deliver() == []
    db.main.run("update pgq.delayed_event set ev_deliver_at = clock_timestamp()")
    assert move(db.main) == 1
    db.main.tick()
    assert [(event.id, event.data) for event in db.main.events(db.main.next())] == [(first, "a")]
    assert once(db.main, "d") == (first, False)


def test_key_and_waiting_event_are_one_transaction(db: Database) -> None:
    db.queue(per_tx_limit="1")
    db.main.begin()
    assert read(db.main.one(AT, "k", "a", "2099-01-01"))[1]
    db.main.run("savepoint s")
    with refused("PQ007"):
        db.main.one(AT, "l", "b", "2099-01-01")
    db.main.run("rollback to s")
    with refused("PQ009"):
        db.main.one("select pgq.open_stage('q', 'w', 1)")
    db.main.rollback()
    assert (keys(db.main), db.main.one(WAITING)) == ([], 0)
    for time in ("2999-01-01", "infinity"):
        with refused("PQ009"):
            db.main.one(AT, "k", "a", time)
    assert keys(db.main) == []
    assert read(db.main.one(AT, "k", "a", "2001-01-01"))[1]
    assert db.main.deliver() == ["a"], "the time has passed"


def test_delayed_event_that_is_cancelled_frees_its_key(db: Database) -> None:
    db.queue()
    first, _ = read(db.main.one(AT, "k", "a", "2099-01-01"))
    cancel = "select state from pgq.cancel_event('q', array[%s]::bigint[])"
    assert db.main.one(cancel, first) == "cancelled"
    assert once(db.main, "b")[1]
    assert db.main.deliver() == ["b"]
