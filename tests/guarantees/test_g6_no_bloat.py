"""G6: no dead events, and ticks and positions as fast as ever while somebody holds xmin back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import MORE_PAGES, RR
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

pytestmark = pytest.mark.alone

# Rows of a table that were never updated or deleted lie without a gap from the first of each page.
GAPS = """
    select count(*) from (
        select (ctid::text::point)[0] as page, max((ctid::text::point)[1]) as last, count(*) as rows
        from only {} group by 1) pages
    where last <> rows
"""


# The rotating tables of all queues: the leaves below pgq.event_template.
EVENT_TABLES = """
    from pg_inherits leaf join pg_inherits queue on queue.inhrelid = leaf.inhparent
    where queue.inhparent = 'pgq.event_template'::regclass
"""


@pytest.fixture
def held(db: Database) -> Database:
    """A database in which one transaction keeps its snapshot for the whole test."""
    db.queue()
    db.main.tick_after("first")
    db.open().begin(RR)
    return db


def _waits_or_ended(db: Database, pid: int, call: Future[Any]) -> bool:
    return call.done() or db.main.one("select cardinality(pg_blocking_pids(%s)) > 0", pid)


HELD_AFTER_LOOK = """
    alter function pgq.tick_sees_table(int, bigint, int) rename to tick_sees_table_itself;
    create function pgq.tick_sees_table(i_queue_id int, i_tick_id bigint, i_table int)
    returns boolean language plpgsql set lock_timeout = 0 as $$  -- the gate has no time limit
    declare v_seen boolean := pgq.tick_sees_table_itself(i_queue_id, i_tick_id, i_table);
    begin {} return v_seen; end $$"""


def test_of_two_rotations_at_once_one_gives_way(db: Database) -> None:
    """Both have read the next table, and ask for it: PostgreSQL calls that a deadlock."""
    db.queue()
    rotators = [db.open(), db.open()]
    with db.held(rotators[0], HELD_AFTER_LOOK) as gate:
        rotators[1].run("set test.held = 'yes'")
        rotations = [each.later("select pgq.maint_rotate_tables_step1('q')") for each in rotators]
        eventually(lambda: len(gate.waiting()) == len(rotators))
        gate.open()
        assert [each.result(timeout=30) for each in rotations] == [0, 0]
    assert db.main.one("select queue_cur_table from pgq.queue") == 1


def test_a_transaction_rotates_that_is_older_than_the_last_rotation(db: Database) -> None:
    db.queue(rotation_period="0")
    older, other = db.open(), db.open()
    other.begin()
    other.one("select now()::text")  # the time of its rotation
    older.begin()
    older.one("select txid_current()")
    db.main.insert("a")
    other.one("select pgq.maint_rotate_tables_step1('q')")
    other.commit()
    other.one("select pgq.maint_rotate_tables_step2()")
    older.one("select pgq.maint_rotate_tables_step1('q')")
    older.commit()
    assert db.main.one("select queue_cur_table from pgq.queue") == 2
    assert db.main.deliver() == ["a"]


def test_a_rotation_waits_for_the_transactions_that_read_its_table(db: Database) -> None:
    """Busy transactional consumers never leave a table alone: NOWAIT would fail for ever."""
    db.queue()
    db.main.tick_after("read")
    reader, rotation = db.open(), db.open()
    for _ in range(5):  # the wait ends after 900 ms, which a busy machine may miss
        reader.begin()
        reader.events(reader.next())
        rotating = rotation.later("select pgq.maint_rotate_tables_step1('q')")
        eventually(partial(_waits_or_ended, db, rotation.pid, rotating))
        reader.commit()
        rotating.result()
        if db.main.one("select queue_cur_table from pgq.queue") == 1:
            return
    pytest.fail("no rotation got the lock")


def _cycles(session: Session, count: int) -> None:
    """Insert, tick, take and finish a batch, `count` times; maintain and rotate now and then."""
    session.run(f"""
        do $$
        declare
            batch bigint;
        begin
            for number in 1 .. {count} loop
                perform pgq.insert_event('q', 't', number::text);
                commit;
                perform pgq.tick_queue('q');
                commit;
                batch := pgq.next_batch('q', 'c');
                commit;
                perform count(*) from pgq.get_batch_events(batch);
                if number % 50 = 0 then
                    perform pgq.batch_retry(batch, 0);
                end if;
                perform pgq.finish_batch(batch);
                commit;
                if number % 100 = 0 then
                    perform pgq.maint_retry_events();
                    commit;
                    perform pgq.maint_rotate_tables_step1('q');
                    commit;
                    perform pgq.maint_rotate_tables_step2();
                    commit;
                    perform pgq.maint_ticks('q'), pgq.maint_positions();
                    commit;
                end if;
            end loop;
        end $$""")


def _costs(session: Session) -> dict[str, int]:
    """Return how many pages each step of a cycle looks at."""
    for _ in range(3):  # functions planned, catalogues cached
        _cycles(session, 7)
    costs = {"insert": session.pages("select pgq.insert_event('q', 't', 'x')")}
    costs["tick"] = session.pages("select pgq.tick_queue('q')")
    costs["next_batch"] = session.pages("select pgq.next_batch('q', 'c')")
    while (batch := session.next()) is not None:
        costs["get"] = session.pages(f"select count(*) from pgq.get_batch_events({batch})")
        costs["finish_batch"] = session.pages(f"select pgq.finish_batch({batch})")
    costs["look in vain"] = session.pages("select pgq.next_batch('q', 'c')")
    return costs


def test_calls_look_at_no_more_pages_and_tables_hold_no_dead_rows_after_many_cycles(
    held: Database,
) -> None:
    before = _costs(held.main)
    _cycles(held.main, 800)
    after = _costs(held.main)
    assert {step: cost for step, cost in after.items() if cost > before[step] + MORE_PAGES} == {}
    assert held.main.one("select count(*) from pgq.tick") < 350
    tables = [
        row[0] for row in held.main.all(f"select leaf.inhrelid::regclass::text {EVENT_TABLES}")
    ]
    assert sum(held.main.one(f"select count(*) from {table}") for table in tables) > 0
    gaps = {table: held.main.one(GAPS.format(table)) for table in tables}
    assert set(gaps.values()) == {0}, "no dead rows"


def test_backlog_of_a_slow_consumer_makes_no_call_dearer(held: Database) -> None:
    held.main.one("select pgq.register_consumer('q', 'slow')")
    before = _costs(held.main)
    _cycles(held.main, 800)
    after = _costs(held.main)
    assert held.main.one("select count(*) from pgq.tick") > 800
    assert {step: cost for step, cost in after.items() if cost > before[step] + MORE_PAGES} == {}


def test_rotation_goes_on_while_xmin_is_held(held: Database) -> None:
    sizes = []
    query = f"select sum(pg_relation_size(leaf.inhrelid)) {EVENT_TABLES}"
    for _ in range(3):
        _cycles(held.main, 300)
        sizes.append(held.main.one(query))
    assert sizes[2] <= sizes[0]


def test_open_producer_does_not_make_batches_read_more(db: Database) -> None:
    db.queue(ntables="8")
    producer = db.open()
    producer.begin()
    producer.insert("open")
    before = _costs(db.main)
    _cycles(db.main, 300)
    after = _costs(db.main)
    assert after["get"] <= before["get"] + MORE_PAGES


def test_plans_made_while_there_were_few_ticks_do_for_many(held: Database) -> None:
    session = held.main
    session.run("set plan_cache_mode = force_generic_plan")
    for table in ("tick", "tick_recent", "position"):
        # An analyze in between would show the rows to the plans.
        session.run(f"alter table pgq.{table} set (autovacuum_enabled = off)")
        session.run(f"vacuum analyze pgq.{table}")
    before = _costs(session)
    older = held.main.one("select min(tick_id) from pgq.tick")
    held.main.run("alter sequence pgq.event_1_tick_seq restart 200000")
    held.open().run(f"""
        insert into pgq.tick
        select tick_queue, tick_id + n, tick_time, tick_snapshot, tick_event_seq
          from only pgq.tick cross join generate_series(1, 50000) n where tick_id = {older}""")
    held.open().run("""
        insert into pgq.tick_recent
        select tick_queue, tick_id + 100000 + n, tick_time, tick_snapshot, tick_event_seq
          from (select * from pgq.tick order by tick_id limit 1) t
         cross join generate_series(1, 50000) n""")
    held.main.one("select pgq.register_consumer_at('q', 'c', max(tick_id)) from pgq.tick")
    after = _costs(session)
    assert {step: cost for step, cost in after.items() if cost > before[step] + MORE_PAGES} == {}
