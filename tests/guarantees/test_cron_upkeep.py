"""Cron entries of a queue that is dropped, and in a dump."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from pgqpy.install import install
from tests.guarantees.sessions import Database, refused
from tests.guarantees.test_cron import ADD, NOW, add, fire, version
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer

DROP = "select pgq.drop_queue('q', %s)"
ENTRIES = "select count(*) from pgq.cron"


def test_queue_with_entries_is_dropped_by_force_only(db: Database) -> None:
    add(db)
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    with refused("PQ008"):
        db.main.one(DROP, False)
    assert db.main.one(DROP, True) == 1
    assert db.main.one(ENTRIES) == 0


def test_entry_that_is_added_meanwhile_is_not_dropped(db: Database) -> None:
    db.queue()
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    adding, dropping = db.open(), db.open()
    adding.begin()
    adding.one(ADD, "d", "* * * * *", "one")
    drop = dropping.later(DROP, False)
    wait_until_blocked(db.main.connection, dropping.pid)
    adding.commit()
    with refused("PQ008"):
        drop.result(30)
    assert db.main.one(ENTRIES) == 1


def test_drop_waits_for_a_change_and_a_fire_without_stopping_producers(db: Database) -> None:
    entry = add(db)
    other, dropping = db.open(), db.open()
    other.begin()
    assert fire(other, entry, NOW) == 1
    assert other.one("select pgq.pause_cron('e')") == 1
    drop = dropping.later(DROP, True)
    wait_until_blocked(db.main.connection, dropping.pid)
    db.main.insert("meanwhile")
    other.commit()
    assert drop.result(30) == 1
    assert fire(db.main, entry, NOW) is None
    assert db.main.one(ENTRIES) == 0


def test_drop_waits_for_a_pause_before_it_holds_any_lock(db: Database) -> None:
    add(db)
    other, dropping = db.open(), db.open()
    other.begin()
    other.one("select pgq.pause_cron('e')")
    drop = dropping.later(DROP, True)
    wait_until_blocked(db.main.connection, dropping.pid)
    db.main.run("set lock_timeout = '10s'")
    db.main.insert("meanwhile")
    other.rollback()
    assert drop.result(30) == 1


def test_restored_dump_has_its_entries_and_their_next_times(own_server: EmbeddedServer) -> None:
    with ExitStack() as stack:
        db = stack.enter_context(closing(Database(own_server.dsn())))
        install(db.main.connection)
        entry = add(db, data="kept")
        path = own_server.directory / "dump.sql"
        path.write_text(own_server.run("pg_dump", "--dbname", db.dsn))
        db.main.run("create database restored template template0")
        dsn = own_server.dsn("restored")
        own_server.run(
            "psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", str(path), "--dbname", dsn
        )
        copy = stack.enter_context(closing(Database(dsn)))
        assert version(copy.main) == entry
        assert fire(copy.main, entry, NOW) is None
        assert copy.main.deliver() == []  # the tick finds that the restore is sound
        assert fire(copy.main, entry, NOW) == 1
        assert copy.main.deliver() == ["kept"]
        assert fire(db.main, entry, NOW) == 1, "they are two databases"
