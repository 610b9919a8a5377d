"""A server that took over, or was restored, does not double, drop or mix events."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import calls
from pgqpy.archive import ArchiveMismatch
from pgqpy.archive.run import NOT_ADOPTED
from pgqpy.install import install
from tests.archive.shop import Shop
from tests.guarantees.restoring import database, two_clusters

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def standby(shop: Shop) -> Iterator[Shop]:
    """Copy the database as it is now: a standby that receives no more changes, and takes over.

    Unlike a real standby's database, the copy has another oid: hence `adopt`.
    """
    name = sql.Identifier(f"{shop.client.connection.info.dbname}_standby")
    own = sql.Identifier(shop.client.connection.info.dbname)
    shop.client.close()
    with psycopg.connect(make_conninfo(shop.dsn, dbname="postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template {}").format(name, own))
        dsn = make_conninfo(shop.dsn, dbname=name.as_string(None).strip('"'))
        shop.client = pgqpy.connect(shop.dsn)
        try:
            with pgqpy.connect(dsn) as client:
                yield Shop(dsn, client, shop.location)
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(name))
            shop.client.close()


def test_files_of_the_same_history_count_though_the_position_was_lost(shop: Shop) -> None:
    shop.archive("a")
    for data in "bcd":
        shop.insert(data)
    with standby(shop) as new:
        shop.run(max_events=1)
        new.insert("e")
        assert new.position < shop.position
        assert new.run(adopt=True) == (1, 1)
        assert new.is_whole()
        assert new.archived() == ["a", "b", "c", "d", "e"]


def test_an_archive_is_adopted_once_though_there_is_no_event(shop: Shop) -> None:
    shop.archive("a")
    with standby(shop) as new:
        assert new.run(adopt=True) == (0, 0)
        assert new.said == [NOT_ADOPTED]
        with pytest.raises(ArchiveMismatch, match="add --adopt once"):
            new.run()
        new.tick()
        assert new.run(adopt=True) == (1, 0)
        assert new.run() == (0, 0)
        assert new.is_whole()


def test_files_of_a_lost_history_stop_the_run_and_stay(shop: Shop) -> None:
    shop.archive("a")
    with standby(shop) as new:
        shop.archive("lost")
        lost = shop.files[-1]
        new.insert("b")
        new.insert("c")
        with pytest.raises(ArchiveMismatch, match="history that this server does not have") as told:
            new.run(adopt=True)
        assert lost.path in str(told.value)
        assert shop.archived() == ["a", "lost"]
        (Path(shop.location) / lost.path).unlink()
        new.run(adopt=True)
        assert new.is_whole()
        assert new.archived() == ["a", "b", "c"]


def test_two_servers_never_write_under_one_name(shop: Shop) -> None:
    shop.archive("a")
    with standby(shop) as new:
        new.insert("b")
        shop.insert("other")
        assert new.last_tick == shop.last_tick
        new.location = f"{shop.location} of the new server"
        shop.run()
        Path(new.location).mkdir()
        (Path(shop.location) / "1").rename(Path(new.location) / "1")
        stale = new.files[-1]
        (Path(new.location) / stale.path).rename(Path(new.location) / "stale")
        new.run(adopt=True)
        assert new.files[-1].path != stale.path
        assert new.files[-1][1:3] == stale[1:3]
        (Path(new.location) / "stale").rename(Path(new.location) / stale.path)
        with pytest.raises(ArchiveMismatch, match="do not join"):
            _ = new.identity


def test_a_tick_that_was_numbered_again_stops_the_run(shop: Shop) -> None:
    shop.archive("a")
    for table in ("tick", "tick_recent"):
        query = f"update pgq.{table} set tick_time = tick_time + interval '1 second'"
        shop.client.connection.execute(query.encode())
    shop.insert("b")
    with pytest.raises(ArchiveMismatch, match="used tick numbers again"):
        shop.run()


def test_a_restored_queue_goes_on_with_its_archive_when_told_so(tmp_path: Path) -> None:
    place = str(tmp_path / "archive")
    with two_clusters() as (large, small):
        dump = small.directory / "dump.sql"
        with pgqpy.connect(large.dsn()) as client:
            install(client.connection)
            client.create_queue("orders")
            old = Shop(large.dsn(), client, place)
            old.archive("a")
            old.insert("b")
            dump.write_text(large.run("pg_dump", "--dbname", old.dsn))
        with database(small, "which_makes_the_roles") as db:
            install(db.main.connection)
        options = ("--quiet", "--set=ON_ERROR_STOP=1", "--dbname", small.dsn())
        small.run("psql", *options, "--file", str(dump))
        with pgqpy.connect(small.dsn()) as client:
            new = Shop(small.dsn(), client, place)
            with pytest.raises(ArchiveMismatch, match="another server or database"):
                new.run()
            with pytest.raises(pgqpy.DatabaseRestored):
                new.run(adopt=True)
            client.call(calls.admin.repair_queue("orders"))
            new.insert("c")
            new.run(adopt=True)
            assert new.archived() == ["a", "b", "c"]
            assert new.run() == (0, 0)
            assert new.verify() == []
