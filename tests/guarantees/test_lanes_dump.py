"""A dump of lanes, restored into a database with the same encoding, or another one."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from pgqpy.install import install
from tests.guarantees.lanes import KEYS, LANES, SET, Run, in_order, insert
from tests.guarantees.sessions import Database, refused

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer

CREATE = """
    create database restored template template0 encoding '{}' lc_collate 'C' lc_ctype 'C'
"""


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1"])
def test_restored_lanes_go_on_where_keys_have_the_same_hash(
    own_server: EmbeddedServer, encoding: str
) -> None:
    with ExitStack() as stack:
        db = stack.enter_context(closing(Database(own_server.dsn())))
        install(db.main.connection)
        db.queue()
        assert db.main.one(SET, 4, "extra1") == 1
        insert(db.main, 1)
        db.main.tick()
        one, other = (Run(db.open(), f"host:{number}:x") for number in "12")
        one.take()
        found = other.take_and_read()
        assert db.main.one(SET, 3, "extra1") == 1
        insert(db.main, 2)
        db.main.tick()
        path = own_server.directory / "dump.sql"
        path.write_text(own_server.run("pg_dump", "--dbname", db.dsn))
        db.main.run(CREATE.format(encoding))
        dsn = own_server.dsn("restored")
        own_server.run(
            "psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", str(path), "--dbname", dsn
        )
        copy = stack.enter_context(closing(Database(dsn)))
        run = Run(copy.open(), "host:3:x")
        if encoding == "UTF8":
            found += run.drain()
        else:
            with refused("PQ012"):
                run.drain()
            assert copy.main.one("select pgq.register_consumer_at('q', 'c', 1)") == 0
            found = run.drain()
        assert sorted(found) == sorted((key, data) for key in KEYS for data in ("001", "002"))
        assert in_order(found)
        assert copy.main.one(LANES) == 3
