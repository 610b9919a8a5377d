"""G7: pg_dump takes its snapshot first, its locks later, and a compaction may come in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from pgqpy.install import install
from tests.guarantees.sessions import Database
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
