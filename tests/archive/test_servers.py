"""A server that crashes, or is restored elsewhere: the archive goes on."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from pgqpy.archive import ArchiveMismatch
from pgqpy.install import install
from tests.archive import gated
from tests.archive.shop import Shop
from tests.archive.test_crash import WAITS
from tests.guarantees.restoring import database, two_clusters
from tests.support.crash import kill_server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess


RESTORE = ("--quiet", "--set=ON_ERROR_STOP=1")


@contextmanager
def open_shop(dsn: str, folder: Path) -> Iterator[Shop]:
    """Connect to a database of any server; the archive is in this folder."""
    with pgqpy.connect(dsn) as client:
        yield Shop(dsn, client, str(folder / "archive"))


def new_shop(shop: Shop) -> None:
    """Install the schema, and archive an event."""
    install(shop.client.connection)
    shop.client.create_queue("orders")
    shop.archive("a")


def test_a_server_that_is_killed_in_a_run_loses_and_doubles_nothing(
    own_server: EmbeddedServer, tmp_path: Path, spawn: Callable[..., PythonProcess]
) -> None:
    dsn = own_server.dsn()
    with open_shop(dsn, tmp_path) as shop, closing(psycopg.connect(dsn, autocommit=True)) as keeper:
        new_shop(shop)
        shop.insert("b")
        keeper.execute("select pg_advisory_lock(%s)", [gated.STEPS["renamed"]])
        run = spawn(gated.__file__, dsn, f"gated://{shop.location}")
        eventually(lambda: keeper.execute(WAITS, [gated.STEPS["renamed"]]).fetchall())
        kill_server(own_server)
    assert run.wait() == 1
    own_server.start()
    with open_shop(dsn, tmp_path) as shop:
        shop.archive("c")
        assert shop.is_whole()
        assert shop.archived() == ["a", "b", "c"]


def test_a_restored_queue_goes_on_with_its_archive_when_told_so(tmp_path: Path) -> None:
    with two_clusters() as (large, small):
        dump = small.directory / "dump.sql"
        with open_shop(large.dsn(), tmp_path) as old:
            new_shop(old)
            old.insert("b")
            dump.write_text(large.run("pg_dump", "--dbname", old.dsn))
        with database(small, "which_makes_the_roles") as db:
            install(db.main.connection)
        small.run("psql", *RESTORE, "--dbname", small.dsn(), "--file", str(dump))
        with open_shop(small.dsn(), tmp_path) as new:
            with pytest.raises(ArchiveMismatch, match="another server or database"):
                new.run()
            with pytest.raises(pgqpy.DatabaseRestored):
                new.run(adopt=True)
            new.client.call(calls.admin.repair_queue("orders"))
            new.insert("c")
            new.run(adopt=True)
            assert new.archived() == ["a", "b", "c"]
            assert new.run() == (0, 0)
            assert new.verify() == []
