"""G7: pg_dump takes its snapshot first, its locks later, and a compaction may come in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from pgqpy.install import install
from tests.guarantees.sessions import RR, Database, refused
from tests.guarantees.test_g6_compaction import COMPACTIONS, leave_a_batch_open
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
        with pytest.raises(RuntimeError, match=r'relation "pgq.compaction_0" does not exist'):
            dump.result(timeout=30)
        assert "compaction_1" in own_server.run("pg_dump", "--dbname", db.dsn)


LISTED = """
    select relname from pg_class
    where relnamespace = 'pgq'::regnamespace and relkind = 'r' order by oid
"""


@COMPACTIONS
def test_dump_that_begins_beside_a_compaction_fails(db: Database, compact: str) -> None:
    leave_a_batch_open(db)
    dump = db.open()
    dump.begin(RR)
    listed = [row[0] for row in dump.all(LISTED)]
    db.main.one(f"select pgq.{compact}()")
    with refused("42P01"):
        for table in listed:  # as pg_dump does, by name
            dump.run(f"lock table pgq.{table} in access share mode")
    dump.rollback()


def test_dump_that_has_its_locks_puts_a_compaction_off(db: Database) -> None:
    leave_a_batch_open(db)
    dump = db.open()
    dump.begin(RR)
    for (table,) in dump.all(LISTED):
        dump.run(f"lock table pgq.{table} in access share mode")
    assert db.main.one("select pgq.compact_positions() or pgq.compact_ticks()") is False
    assert dump.one("select count(*) from pgq.subscription") == 1
    assert db.main.drain() == ["a", "b", "c", "d"], "nobody else is held up"
