"""Delayed events beside stages, limits, a drop, a restore, a copy, and a crash."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from pgqpy.install import install
from tests.guarantees.delayed import MOVE, come, delay, delay_until_due, move, soon, wait_until
from tests.guarantees.sessions import Database, refused
from tests.support.gates import shut_gate, wait_until_blocked

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer

WAITING = "select count(*) from pgq.delayed_event"
ONE = "select pgq.insert_event_at('q', {}, 't', 'a')"
MANY = "select * from pgq.insert_events_at('q', {}, array['t'], array['a'])"
LATER = "now() + interval '1 hour'"
STAGE = "select pgq.open_stage('q', 'w', 1)"
# A restore where transaction ids are smaller: those of the dump lie beyond this cluster's.
RESTORE = """
    update pgq.event_1 set ev_txid = ev_txid + 1000000;
    update pgq.delayed_event set ev_txid = ev_txid + 1000000;
    update pgq.tick
       set tick_snapshot = format('%s:%s:', 1000000 + txid_snapshot_xmin(tick_snapshot),
               1000000 + txid_snapshot_xmax(tick_snapshot))::txid_snapshot
"""
REPAIR = "select pgq.repair_queue('q')"


@pytest.mark.parametrize("call", [ONE, MANY])
@pytest.mark.parametrize("time", ["null", "'infinity'", "now() + interval '101 years'"])
def test_time_that_never_comes_is_refused(db: Database, call: str, time: str) -> None:
    db.queue()
    with refused("PQ009"):
        db.main.one(call.format(time))


@pytest.mark.parametrize("call", [ONE, MANY])
def test_limits_act_on_the_call(db: Database, call: str) -> None:
    db.queue()
    with refused("PQ001"):
        db.main.one(call.replace("'q'", "'missing'").format(LATER))
    with refused("PQ009"):
        db.main.one(call.replace("'q'", "null").format(LATER))
    db.main.one("select pgq.set_queue_config('q', 'per_tx_limit', '1')")
    db.main.begin()
    db.main.one(call.format(LATER))
    with refused("PQ007"):
        db.main.one(call.format(LATER))
    db.main.rollback()
    delay_until_due(db.main, "a")
    db.main.one("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    with refused("PQ006"):
        db.main.one(call.format(LATER))
    assert come(db) == ["a"]


@pytest.mark.parametrize("calls", [(STAGE, ONE), (STAGE, MANY), (ONE, STAGE), (MANY, STAGE)])
def test_stage_takes_no_delayed_events(db: Database, calls: tuple[str, str]) -> None:
    db.queue()
    first, second = calls
    db.main.begin()
    db.main.one(first.format(LATER))
    with refused("PQ009"):
        db.main.one(second.format(LATER))


@pytest.mark.parametrize("moves_first", [False, True])
def test_stage_takes_no_events_that_others_delayed(db: Database, moves_first: bool) -> None:
    """They would be hidden with the stage, and lost with one that is dropped."""
    db.queue()
    delay_until_due(db.main, "a")
    db.main.begin()
    if moves_first:
        assert move(db.main) == 1
        with refused("PQ009"):
            db.main.one(STAGE)
        db.main.rollback()
    else:
        db.main.one(STAGE)
        assert move(db.main) == 0
        db.main.commit()
    assert come(db) == ["a"]


def test_drop_waits_for_an_insert_and_removes_what_waits(db: Database) -> None:
    db.queue()
    db.queue("other")
    delay(db.main, db.main.one(f"select {LATER}"), "kept", queue="other")
    producer, admin = db.open(), db.open()
    producer.begin()
    producer.one(ONE.format(LATER))
    dropped = admin.later("select pgq.drop_queue('q', true)")
    wait_until_blocked(db.main.connection, admin.pid)
    producer.commit()
    assert dropped.result() == 1
    assert db.main.all("select ev_data from pgq.delayed_event") == [("kept",)]
    with refused("PQ001"):
        producer.one(ONE.format(LATER))


def test_events_of_a_restored_queue_wait_for_the_repair(db: Database) -> None:
    db.queue()
    db.main.insert("before")
    delay_until_due(db.main, "a")
    assert db.main.deliver() == ["before"]
    db.main.run(RESTORE)
    assert (db.main.one(MOVE), db.main.one(WAITING)) == (0, 1)
    db.main.one(ONE.format(LATER))
    db.main.run("update pgq.delayed_event set ev_txid = ev_txid + 1000000")
    db.main.one(REPAIR)
    assert come(db) == ["a"]
    assert db.main.one("select max(ev_txid) < txid_current() from pgq.delayed_event") is True


def test_copy_without_its_sequences_gives_no_id_twice(db: Database) -> None:
    db.queue()
    db.main.insert("before")
    assert db.main.deliver() == ["before"]
    time = soon(db.main)
    (waiting,) = delay(db.main, time, "a")
    # A copy by logical replication, in another cluster.
    db.main.run("select setval('pgq.event_1_id_seq', 1); update pgq.queue set queue_system_id = 1")
    with refused("PQ012"):
        db.main.tick()
    db.main.one(REPAIR)
    assert db.main.insert("after") > waiting
    wait_until(db.main, time)
    assert sorted(come(db)) == ["a", "after"]


def test_waiting_event_with_the_id_of_an_event_gets_a_new_one_in_the_repair(db: Database) -> None:
    db.queue()
    first = db.main.insert("before")
    db.main.tick()
    db.main.run("select setval('pgq.event_1_id_seq', 1, false)")
    db.main.run("update pgq.queue set queue_system_id = 1")
    assert delay_until_due(db.main, "a") == [first]
    with refused("PQ012"):
        db.main.tick()
    db.main.one(REPAIR)
    assert db.main.one("select ev_id from pgq.delayed_event") > first
    assert come(db) == ["before", "a"]


@pytest.mark.parametrize("point", ["before insert on pgq.event_1_0", "after delete on {}"])
def test_move_that_is_killed_moves_nothing(db: Database, point: str) -> None:
    db.queue()
    delay_until_due(db.main, "a", "b")
    mover = db.open()
    with shut_gate(db.open().connection) as gate:
        db.main.run(f"""
            create function public.wait() returns trigger language plpgsql as
            $$ begin perform from ({gate.wait_sql}) gate; return new; end $$;
            create trigger wait {point.format("pgq.delayed_event")}
            for each row execute function public.wait()""")
        moved = mover.later(MOVE)
        gate.wait_for_arrival()
        db.main.one("select pg_terminate_backend(%s, 30000)", mover.pid)
        with refused("57P01"):
            moved.result()
        assert db.main.one(WAITING) == 2
    db.main.run("drop function public.wait() cascade")
    assert come(db) == ["a", "b"]
    assert move(db.main) == 0


def test_dump_and_restore_keep_what_waits_and_its_ids(own_server: EmbeddedServer) -> None:
    with closing(Database(own_server.dsn())) as db:
        install(db.main.connection)
        db.queue()
        time = soon(db.main)
        ids = delay(db.main, time, "a", "b")
        far = delay(db.main, db.main.one(f"select {LATER}"), "far")
        path = own_server.directory / "dump.sql"
        path.write_text(own_server.run("pg_dump", "--dbname", db.dsn))
        db.main.run("create database restored")
    own_server.run(
        "psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", own_server.dsn("restored"), "-f", str(path)
    )
    with closing(Database(own_server.dsn("restored"))) as db:
        wait_until(db.main, time)
        assert move(db.main) == 0
        assert db.main.deliver() == []  # the tick finds that the restore is sound
        assert move(db.main) == 2
        db.main.tick()
        assert [event.id for event in db.main.events(db.main.next())] == ids
        assert db.main.all("select ev_id from pgq.delayed_event") == [(far[0],)]


def test_moved_event_is_in_one_range_of_ticks(db: Database) -> None:
    db.queue()
    ticks = [db.main.tick()]
    delay_until_due(db.main, "a")
    ticks.append(db.main.tick())
    move(db.main)
    ticks.append(db.main.tick())

    def between(first: int, last: int) -> list[tuple[str]]:
        query = "select ev_data from pgq.get_tick_events('q', %s, %s)"
        return db.main.all(query, ticks[first], ticks[last])

    assert [between(0, 1), between(1, 2), between(0, 2)] == [[], [("a",)], [("a",)]]


def test_filter_decides_when_the_event_is_due(db: Database) -> None:
    db.queue(consumers=("c", "eu"))
    db.main.one("""select pgq.set_consumer_filter('q', 'eu', '{"extra1": ["eu"]}')""")
    time = soon(db.main)
    for data, extra in (("a", "eu"), ("b", "us")):
        db.main.one("select pgq.insert_event_at('q', %s, 't', %s, %s)", time, data, extra)
    wait_until(db.main, time)
    move(db.main)
    db.main.tick()
    assert (db.main.drain("eu"), db.main.drain("c")) == (["a"], ["a", "b"])
