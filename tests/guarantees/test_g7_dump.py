"""G7: pg_dump takes its snapshot first, its locks later, and a truncation may come in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from pgqpy.install import install
from tests.guarantees.sessions import RR, Database, Session, refused
from tests.guarantees.test_g6_compaction import COMPACTIONS, leave_a_batch_open
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer

DUMP_WAITS = """
    select from pg_stat_activity
    where application_name = 'pg_dump' and wait_event_type = 'Lock'
"""


def test_pg_dump_that_begins_beside_a_compaction_fails(own_server: EmbeddedServer) -> None:
    with ExitStack() as stack:
        db = stack.enter_context(closing(Database(own_server.dsn())))
        db.main.run("create table first ()")  # which pg_dump locks before ours
        install(db.main.connection)
        db.queue()
        locker = db.open()
        locker.begin()
        locker.run("lock table first in access exclusive mode")
        background = stack.enter_context(ThreadPoolExecutor(1))
        dump = background.submit(own_server.run, "pg_dump", "--dbname", db.dsn)
        eventually(lambda: db.main.all(DUMP_WAITS))
        assert db.main.one("select pgq.compact_positions()") is True
        locker.rollback()
        with pytest.raises(RuntimeError, match=r'relation "pgq.truncation_0" does not exist'):
            dump.result(timeout=30)
        assert "truncation_1" in own_server.run("pg_dump", "--dbname", db.dsn)


LISTED = """
    select relname from pg_class
    where relnamespace = 'pgq'::regnamespace and relkind = 'r' order by oid
"""


def lock_all(dump: Session, listed: list[str]) -> None:
    """Lock tables by name, as pg_dump does."""
    for table in listed:
        dump.run(f"lock table pgq.{table} in access share mode")


def rotate_twice(db: Database) -> None:
    """Let the next rotation be that of the table with the event."""
    for _ in range(2):
        db.main.rotate()
        db.main.tick()
        db.main.drain()


def late_dump(db: Database) -> tuple[Session, list[str]]:
    """Begin a dump that has seen a consumer before its event, and the tables, and locks nothing."""
    db.queue()
    db.main.tick_after("a")
    dump = db.open()
    dump.begin(RR)
    listed = [row[0] for row in dump.all(LISTED)]
    assert db.main.drain() == ["a"]
    return dump, listed


def test_dump_that_begins_beside_a_rotation_fails(db: Database) -> None:
    dump, listed = late_dump(db)
    rotate_twice(db)  # an idle table is no reason to fail
    assert db.main.one("select count(*) from pgq.event_1") == 1
    db.main.rotate()
    assert db.main.one("select count(*) from pgq.event_1") == 0
    with refused("42P01"):
        lock_all(dump, listed)


def test_dump_that_begins_beside_rotations_of_empty_tables_goes_on(db: Database) -> None:
    dump, listed = late_dump(db)
    assert (db.main.rotate(), db.main.rotate()) == (1, 2)
    assert [row[0] for row in db.main.all(LISTED)] == listed
    lock_all(dump, listed)
    assert dump.one("select count(*) from pgq.event_1") == 1


def test_dump_that_begins_beside_a_repair_fails(db: Database) -> None:
    dump, listed = late_dump(db)
    db.main.one("select pgq.repair_queue('q')")
    with refused("42P01"):
        lock_all(dump, listed)


def test_dump_that_has_locked_the_mark_puts_a_rotation_off_and_is_named(db: Database) -> None:
    dump, listed = late_dump(db)
    rotate_twice(db)
    lock_all(dump, [table for table in listed if table.startswith("truncation_")])
    assert db.main.rotate() == 2
    holder = "select held_by, holder from pgq.get_rotation_info('q') where state = 'next'"
    assert db.main.all(holder) == [("transaction", str(dump.pid))]
    lock_all(dump, listed)
    assert dump.one("select count(*) from pgq.event_1") == 1
    dump.rollback()
    assert db.main.rotate() == 0


def test_rotation_gives_way_to_a_session_that_has_its_table(db: Database) -> None:
    db.queue()
    other = db.open()
    other.begin()
    other.run("lock table pgq.event_1_1 in access exclusive mode")
    assert db.main.rotate() == 0
    other.rollback()
    assert db.main.rotate() == 1


def test_upgrade_that_has_locked_the_mark_puts_a_rotation_off(db: Database) -> None:
    late_dump(db)[0].rollback()
    rotate_twice(db)
    upgrade = db.open()
    upgrade.begin()
    upgrade.run("lock table pgq.truncation_0 in share update exclusive mode")
    assert db.main.rotate() == 2
    upgrade.rollback()
    assert db.main.rotate() == 0


ASKING_FAILS = """
    create or replace function pgq.lock_truncation_mark() returns void language plpgsql as $$
    begin
        raise exception 'asked for a lock';
    end $$
"""


@pytest.mark.parametrize("call", ["maint_rotate_tables_step1('q')", "compact_positions()"])
def test_nothing_waits_for_the_locks_of_a_dump(db: Database, call: str) -> None:
    """The workers of pg_dump -j fail where another session waits for a lock before them."""
    dump, listed = late_dump(db)
    rotate_twice(db)
    lock_all(dump, [table for table in listed if table.startswith("truncation_")])
    db.main.run(ASKING_FAILS)
    assert not db.main.one(f"select pgq.{call}")
    dump.rollback()
    with refused("P0001"):
        db.main.one(f"select pgq.{call}")


def test_mark_that_a_restore_has_left_out_is_made(db: Database) -> None:
    leave_a_batch_open(db)
    rights = "select relname, relpersistence, relacl from pg_class where relname ~ '^truncation'"
    before = db.main.all(rights)
    db.main.run("drop table pgq.truncation_0")
    assert db.main.one("select pgq.compact_positions()") is True
    assert db.main.all(rights) == before


@COMPACTIONS
def test_dump_that_begins_beside_a_compaction_fails(db: Database, compact: str) -> None:
    leave_a_batch_open(db)
    dump = db.open()
    dump.begin(RR)
    listed = [row[0] for row in dump.all(LISTED)]
    db.main.one(f"select pgq.{compact}()")
    with refused("42P01"):
        lock_all(dump, listed)
    dump.rollback()


@pytest.mark.alone
def test_dump_that_has_its_locks_puts_a_compaction_off(db: Database) -> None:
    leave_a_batch_open(db)
    dump = db.open()
    dump.begin(RR)
    lock_all(dump, [table for (table,) in dump.all(LISTED)])
    assert db.main.one("select pgq.compact_positions() or pgq.compact_ticks()") is False
    assert dump.one("select count(*) from pgq.subscription") == 1
    assert db.main.drain() == ["a", "b", "c", "d"], "nobody else is held up"


RESTORED_OVER = "create table pgq.truncation_9 ()"  # what pg_restore --clean leaves
MARKS = """
    select relname from pg_class
     where relnamespace = 'pgq'::regnamespace and starts_with(relname, 'truncation')"""


@COMPACTIONS
def test_mark_that_a_restore_has_left_goes_with_the_next_compaction(
    db: Database, compact: str
) -> None:
    leave_a_batch_open(db)
    db.main.run(f"{RESTORED_OVER}; create table public.truncation_99 ()")
    assert db.main.one(f"select pgq.{compact}()") is True
    assert db.main.all(MARKS) == [("truncation_10",)]


def test_queue_is_repaired_and_rotated_beside_a_mark_that_a_restore_has_left(db: Database) -> None:
    db.queue()
    db.main.insert("a")
    db.main.run(RESTORED_OVER)
    db.main.one("select pgq.repair_queue('q')")
    assert db.main.all(MARKS) == [("truncation_10",)]
    db.main.tick()
    assert db.main.drain() == ["a"]
    db.main.run(RESTORED_OVER)
    for table in (1, 2, 0):
        assert db.main.rotate() == table
        db.main.tick()
        db.main.drain()
    assert db.main.all(MARKS) == [("truncation_11",)]


@pytest.mark.parametrize("mark", ["truncation_0", "truncation_9"])
def test_upgrade_waits_for_who_truncates_by_either_mark(db: Database, mark: str) -> None:
    db.main.run(RESTORED_OVER)
    holder, installer = db.open(), db.open()
    holder.begin()
    holder.run(f"lock table pgq.{mark} in access exclusive mode")
    with ThreadPoolExecutor(1) as background:
        upgraded = background.submit(install, installer.connection)
        wait_until_blocked(db.main.connection, installer.pid)
        holder.rollback()
        upgraded.result(timeout=30)
    assert len(db.main.all(MARKS)) == 2


def test_upgrade_waits_for_no_dump(db: Database) -> None:
    dump, listed = late_dump(db)
    lock_all(dump, [table for table in listed if table.startswith("truncation_")])
    db.main.run("set lock_timeout = '20s'")
    install(db.main.connection)
