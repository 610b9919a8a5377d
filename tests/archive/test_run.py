"""Runs of the archive: what is written, where they begin, and what they refuse."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

import pgqpy
from pgqpy.archive import ArchiveMismatch
from pgqpy.archive.errors import StoreFailed
from pgqpy.archive.files import find_archive, read_info
from pgqpy.archive.read import read_events
from pgqpy.archive.run import DURABLE_COMMITS, ArchiveOptions, run_archive
from pgqpy.archive.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.archive.shop import Shop


def test_every_event_is_in_one_file_however_large_files_may_be(shop: Shop) -> None:
    for number in range(6):
        shop.insert(f"a{number}", f"b{number}", f"c{number}")
    assert shop.run(max_events=1) == (6, 18)
    assert shop.is_whole()
    shop.insert("later")
    assert shop.run() == (1, 1)
    assert shop.is_whole()
    assert len(shop.archived()) == 19


def test_ids_of_events_that_were_rolled_back_do_not_stop_it(shop: Shop) -> None:
    for _ in range(3):
        with shop.client.connection.transaction(force_rollback=True):
            shop.client.insert_events("orders", [("t", "d")] * 50)
        shop.tick()
    shop.insert("a")
    assert shop.run(max_events=10)[1] == 1
    assert shop.is_whole()


def test_two_runs_at_once_are_refused(shop: Shop) -> None:
    shop.archive("a")
    lock = """select pg_advisory_lock(7366514, sub_id) from pgq.subscription"""
    with pgqpy.connect(shop.dsn) as other:
        other.connection.execute(lock)
        with pytest.raises(pgqpy.ConsumerRunning):
            shop.run()
    assert shop.run() == (0, 0)


def test_a_queue_of_another_creation_or_another_consumer_is_refused(shop: Shop) -> None:
    shop.client.register_consumer("orders", "archive")
    shop.insert("a")
    with pytest.raises(ArchiveMismatch, match="reads batches"):
        shop.run()
    assert shop.files == []
    shop.client.unregister_consumer("orders", "archive")
    shop.run()
    with pytest.raises(ArchiveMismatch, match="consumer 'archive' writes it"):
        shop.run(consumer="other")
    shop.client.connection.execute("update pgq.queue set queue_created = now()")
    with pytest.raises(ArchiveMismatch, match="that was created"):
        shop.run()
    assert shop.archived() == ["a"]


def test_an_empty_place_is_not_taken_for_the_archive(shop: Shop) -> None:
    shop.run()
    shop.archive("a")
    mounted, shop.location = shop.location, f"{shop.location} that is not mounted"
    shop.insert("b")
    with pytest.raises(ArchiveMismatch, match="its disk mounted"):
        shop.run()
    assert shop.run(new=True) == (1, 1)
    assert shop.archived() == ["b"]
    shop.location = mounted
    assert shop.archived() == ["a"]


def test_several_queues_share_a_location(shop: Shop) -> None:
    shop.client.create_queue("bills")
    shop.insert("a")
    shop.client.insert_event("bills", "t", "b")
    shop.tick("bills")
    shop.run()
    run_archive(ArchiveOptions("bills"), shop.store, shop.dsn, shop.said.append)
    assert shop.archived() == ["a"]
    bills = find_archive(shop.store, "bills")
    assert [event.data for event in read_events(shop.store, bills.files)] == ["b"]


def test_a_role_that_reads_may_archive(shop: Shop, login: Callable[..., str]) -> None:
    shop.insert("a")
    filer = login("pgq_reader")
    shop.dsn = make_conninfo(shop.dsn, user=filer)
    shop.run()
    assert shop.is_whole()
    shop.insert("b")
    shop.client.connection.execute(f"revoke pgq_reader from {filer}".encode())
    with pytest.raises(InsufficientPrivilege):
        shop.run()


def test_commits_wait_for_the_disk_whatever_the_role_says(shop: Shop) -> None:
    execute = shop.client.connection.execute
    for before, after in (("off", "on"), ("local", "local")):
        execute(f"set synchronous_commit = {before}")
        execute(DURABLE_COMMITS)
        assert execute("show synchronous_commit").fetchone() == (after,)


@pytest.mark.parametrize(
    ("location", "error", "what"),
    [
        ("nosuch://x", pgqpy.InvalidArgument, "Protocol not known: nosuch"),
        ("dropbox://x", pgqpy.MissingExtra, r"for dropbox://: pip install dropboxdrivefs"),
        ("simplecache::dropbox://x", pgqpy.MissingExtra, r"for dropbox://: pip install"),
        ("ftp://user:geheim/2@host/x", pgqpy.InvalidArgument, "the URL is not valid"),
        ("simplecache::ftp://user:geheim/2@host/x", pgqpy.InvalidArgument, "the URL is not valid"),
        ("ftp://user:geheim@127.0.0.1:1/x", StoreFailed, "ConnectionRefusedError"),
    ],
)
def test_a_location_that_cannot_be_used_is_refused_without_its_password(
    location: str, error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what) as caught:
        Store(location)
    assert "geheim" not in str(caught.value)


def test_other_file_systems_hold_an_archive_too(shop: Shop) -> None:
    shop.location = f"memory://{shop.client.connection.info.dbname}"
    for data in "abc":
        shop.insert(data)
    assert shop.run(max_events=1) == (3, 3)
    assert shop.is_whole()
    assert [name for name, _, _ in shop.store.list("1") if name.endswith(".tmp")] == []
    shop.store.remove(shop.files[-1].path)
    with pytest.raises(ArchiveMismatch):
        shop.run()


def test_a_first_run_begins_with_the_oldest_event_and_writes_for_its_owner_alone(
    shop: Shop,
) -> None:
    shop.archive("before anybody thought of an archive")
    assert shop.archived() == ["before anybody thought of an archive"]
    info = read_info(shop.store, shop.files[0].path)
    assert info.start.tick == info.ticks[0].tick == shop.files[0].from_tick
    assert info.end == info.ticks[-1]
    assert info.events == 1
    for path in Path(shop.location).rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_nothing_new_writes_nothing_but_an_hour_gives_an_empty_file(shop: Shop) -> None:
    shop.archive("a")
    for _ in range(2):
        assert shop.run() == (0, 0)
        shop.tick()
    later = "update pgq.tick_recent set tick_time = now() + interval '1 hour' where tick_id = %s"
    shop.client.connection.execute(later, [shop.last_tick])
    assert shop.run() == (1, 0)
    assert shop.is_whole()
    assert shop.position == shop.last_tick


def test_a_missing_queue_is_named(shop: Shop) -> None:
    with pytest.raises(pgqpy.QueueNotFound, match="others"):
        run_archive(ArchiveOptions("others"), shop.store, shop.dsn, shop.said.append)
