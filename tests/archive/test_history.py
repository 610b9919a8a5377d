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
from pgqpy.archive import ArchiveMismatch
from pgqpy.archive.run import NOT_ADOPTED
from tests.archive.shop import Shop

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
