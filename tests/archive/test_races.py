"""The consumer is disturbed while a file is stored: the files have no hole and no double."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from pgqpy import calls
from pgqpy.archive import ArchiveMismatch
from tests.archive.test_crash import waiting_at
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.archive.shop import Shop
    from tests.support.processes import PythonProcess

DETACH = "update pgq.registration set sub_stalls = 'detach', sub_detached = now()"
NEWEST = "select max(ev_id) from pgq.event_1"


@pytest.fixture
def storing(
    shop: Shop,
    connect: Callable[..., psycopg.Connection[Any]],
    spawn: Callable[..., PythonProcess],
) -> Callable[[int], Any]:
    """Two events, one of them archived; a run stores the other in the block, and ends with it."""

    @contextmanager
    def held(exit_code: int) -> Iterator[None]:
        shop.archive("a")
        shop.insert("b")
        with waiting_at("rename", shop, connect(), spawn) as run:
            yield
        assert run.wait() == exit_code, run.output()

    return held


def unregister(shop: Shop) -> None:
    shop.client.unregister_consumer("orders", "archive")


def move_back(shop: Shop) -> None:
    shop.client.register_consumer_at("orders", "archive", shop.files[0].from_tick)


@pytest.mark.parametrize("disturb", [unregister, move_back])
def test_it_is_unregistered_or_moved_back(
    shop: Shop, storing: Callable[[int], Any], disturb: Callable[[Shop], None]
) -> None:
    with storing(1):
        disturb(shop)
    shop.archive("c")
    assert shop.is_whole()
    assert shop.archived() == ["a", "b", "c"]


def test_it_is_registered_anew_at_the_end(shop: Shop, storing: Callable[[int], Any]) -> None:
    with storing(1):
        shop.client.unregister_consumer("orders", "archive")
        shop.insert("c")
        shop.client.register_consumer("orders", "archive")
    with pytest.raises(ArchiveMismatch, match="in no file"):
        shop.run()
    shop.client.unregister_consumer("orders", "archive")
    shop.run()
    assert shop.is_whole()


def test_a_seek_is_refused(shop: Shop, storing: Callable[[int], Any]) -> None:
    with storing(0):
        with pytest.raises(pgqpy.ConsumerRunning):
            shop.client.seek_consumer("orders", "archive", "beginning")
        ((newest,),) = shop.client.connection.execute(NEWEST).fetchall()
        (skipped,) = shop.client.skip_event("orders", "archive", [newest])
        assert skipped.state == "by ticks"
    assert shop.is_whole()


def test_it_is_detached(shop: Shop, storing: Callable[[int], Any]) -> None:
    with storing(1):
        shop.client.connection.execute(DETACH)
    with pytest.raises(pgqpy.ConsumerDetached):
        shop.run()
    shop.client.call(calls.admin.reattach_consumer("orders", "archive"))
    shop.archive("c")
    assert shop.is_whole()
    assert shop.archived() == ["a", "b", "c"]


def test_the_queue_is_dropped_and_created_again(shop: Shop, storing: Callable[[int], Any]) -> None:
    with storing(1):
        shop.client.drop_queue("orders", force=True)
        shop.client.create_queue("orders")
    with pytest.raises(ArchiveMismatch, match="dropped and created again"):
        shop.run()
    assert shop.archived() == ["a", "b"]


def test_the_queue_is_repaired(shop: Shop, storing: Callable[[int], Any]) -> None:
    with storing(0):
        shop.client.call(calls.admin.repair_queue("orders"))
    shop.archive("c")
    assert shop.archived() == ["a", "b", "c"]
    assert shop.verify() == []


def test_a_cancelled_event_is_archived(shop: Shop, storing: Callable[[int], Any]) -> None:
    with storing(0):
        event_id = shop.client.insert_event("orders", "placed", "cancelled")
        shop.tick()
        shop.client.cancel_event("orders", [event_id])
    shop.run()
    assert shop.is_whole()
    assert shop.archived() == ["a", "b", "cancelled"]


@pytest.mark.parametrize("retention", ["", "1 day"])
def test_rotation_waits_until_it_is_stored_also_if_a_retention_ends(
    shop: Shop, storing: Callable[[int], Any], retention: str
) -> None:
    execute = shop.client.connection.execute
    execute("update pgq.queue set queue_rotation_period = '0'")
    shop.client.set_queue_config("orders", "retention", retention)
    with storing(0):
        shop.client.set_queue_config("orders", "retention", "")
        for _ in range(4):
            shop.tick()
            execute("select pgq.maint_rotate_tables_step1('orders')")
            execute("select pgq.maint_rotate_tables_step2()")
        start, end = shop.files[-1].to_tick, shop.last_tick
        events = shop.client.get_tick_events("orders", start, end)
        assert [event.data for event in events] == ["b"]
    assert shop.archived() == ["a", "b"]
    assert shop.verify() == []


def test_compaction_leaves_its_ticks(shop: Shop, storing: Callable[[int], Any]) -> None:
    execute = shop.client.connection.execute
    with storing(0):
        shop.tick()
        execute("update pgq.tick_recent set tick_time = '2030-01-01 00:00:00'")  # of one second
        eventually(lambda: execute("select pgq.compact_ticks()").fetchone() == (True,))
    assert shop.position == shop.files[-1].to_tick
