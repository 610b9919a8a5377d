"""Archived events come back as they were, by ticks, times and types."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

import pgqpy
from pgqpy import calls, tick_ranges
from pgqpy.archive import ArchiveDamaged, ArchiveMismatch
from pgqpy.archive.files import find_archive, list_archives, open_file
from pgqpy.archive.read import ArchiveSelection, choose_files, join_archive, read_events
from pgqpy.archive.run import ArchiveOptions, run_archive

if TYPE_CHECKING:
    from tests.archive.shop import Shop


def test_events_come_back_as_the_queue_has_them(shop: Shop) -> None:
    values = ("", "ä", "\U0001f600 'quoted' \\ \n", '{"a": null}')
    for value in values:
        shop.client.insert_event("orders", value, value, extra1=value, extra4=value)
    shop.client.insert_event("orders", "nothing", None)
    shop.archive("last", extra2="2", extra3="3")
    assert shop.is_whole()
    assert shop.archived() == [*values, None, "last"]


def test_tick_of_each_event_is_the_first_one_that_sees_it(shop: Shop) -> None:
    for data in "abc":
        shop.insert(data, data * 2)
    shop.run()
    (first, *later, last) = [
        tick.tick_id for tick in shop.client.call(calls.ticks.get_tick_info("orders"))
    ]
    for after, up_to in [(first, later[0]), (later[0], later[1]), (later[1], last), (first, last)]:
        live = [event.data for event in shop.client.get_tick_events("orders", after, up_to)]
        assert shop.archived(ArchiveSelection(after=after, up_to=up_to)) == live


def test_an_event_that_committed_late_belongs_to_the_later_tick(shop: Shop) -> None:
    with pgqpy.connect(shop.dsn) as other, other.transaction():
        other.insert_event("orders", "placed", "late")
        shop.insert("early")
    middle = shop.last_tick
    shop.archive("after")
    assert shop.archived(ArchiveSelection(up_to=middle)) == ["early"]
    assert shop.archived(ArchiveSelection(after=middle)) == ["late", "after"]


def test_times_types_and_extras_select(shop: Shop) -> None:
    for number in range(3):
        shop.client.insert_event("orders", f"t{number}", f"d{number}", extra1=f"e{number}")
        shop.tick()
    shop.run(max_events=1)
    times = [event.time for event in read_events(shop.store, shop.files)]
    assert shop.archived(ArchiveSelection(since=times[1])) == ["d1", "d2"]
    assert shop.archived(ArchiveSelection(until=times[1])) == ["d0"]
    assert shop.archived(ArchiveSelection(types=["t0", "t2"])) == ["d0", "d2"]
    assert shop.archived(ArchiveSelection(extras={"extra1": ["e1"]}, types=["t1", "t2"])) == ["d1"]
    assert shop.archived(ArchiveSelection(since=times[2] + timedelta(seconds=1))) == []


FIRST, LAST = (each.replace(tzinfo=timezone.utc) for each in (datetime.min, datetime.max))  # noqa: DTZ901  # they get one
RAW = "select pgq.insert_event_raw('orders', 1, %s, null, null, 't', 'd', null, null, null, null)"


@pytest.mark.parametrize(
    ("time", "nearest"),
    [
        ("infinity", LAST),
        ("-infinity", FIRST),
        ("0044-03-15 BC", FIRST),
        ("294276-12-31", LAST),
        ("20000-01-01", LAST),
    ],
)
def test_times_that_python_lacks_are_kept_as_near_as_can_be(
    shop: Shop, time: str, nearest: datetime
) -> None:
    shop.client.connection.execute(RAW, [time])
    shop.tick()
    shop.run()
    assert shop.is_whole()
    (found,) = read_events(shop.store, shop.files)
    assert found.time == nearest
    selected = ["d"] if nearest == LAST else []
    assert shop.archived(ArchiveSelection(since=datetime.now(timezone.utc))) == selected


def test_files_are_found_by_the_range_and_the_name_of_their_queue(shop: Shop) -> None:
    shop.archive_each(*"abcd")
    tick_times = [file.from_tick for file in shop.files]
    assert choose_files(shop.files, tick_times[1], tick_times[3]) == shop.files[1:3]
    assert choose_files(shop.files, tick_times[1]) == shop.files[1:]
    assert choose_files(shop.files, None, tick_times[1]) == shop.files[:1]
    assert find_archive(shop.store, "orders").files == shop.files
    assert [each.identity.queue for each in list_archives(shop.store)] == ["orders"]
    with pytest.raises(ArchiveMismatch, match="no archive of queue 'other'"):
        find_archive(shop.store, "other")


def test_an_archive_goes_on_under_the_new_name_of_its_queue(shop: Shop) -> None:
    shop.archive("a")
    shop.client.call(calls.admin.rename_queue("orders", "purchases"))
    with pytest.raises(pgqpy.QueueNotFound, match="queue orders was renamed to purchases"):
        shop.run()
    with tick_ranges.locked_queue(shop.client, "purchases") as queue:
        assert join_archive(shop.client, shop.store, queue).files == shop.files
    shop.client.insert_event("purchases", "placed", "b")
    shop.tick("purchases")
    run_archive(ArchiveOptions("purchases"), shop.store, shop.dsn, shop.said.append)
    assert (shop.archived(), shop.verify()) == (["a", "b"], [])
    assert find_archive(shop.store, "purchases").files == shop.files


def test_a_file_that_expires_while_it_is_read_is_an_error(shop: Shop) -> None:
    shop.archive("a")
    files = shop.files
    shop.store.remove(files[0].path)
    with pytest.raises(ArchiveDamaged, match="read again"):
        list(read_events(shop.store, files))


def test_a_row_group_is_what_memory_can_hold(shop: Shop) -> None:
    megabyte = 1024 * 1024
    for number in range(40):
        shop.client.insert_event("orders", "large", f"{number:02}" + "x" * megabyte)
    shop.client.insert_events("orders", [("small", str(number)) for number in range(12_000)])
    shop.tick()
    shop.run()
    assert shop.is_whole()
    with open_file(shop.store, shop.files[0].path) as file:
        assert len(shop.files) == 1
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
    assert max(group.total_byte_size for group in groups) < 24 * megabyte
    assert max(group.num_rows for group in groups) <= 11_000
    assert sum(1 for _ in read_events(shop.store, shop.files)) == 12_040
