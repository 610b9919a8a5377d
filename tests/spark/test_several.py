"""Several queues in one stream or one batch: a list of names, or the beginning of names."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.errors import InvalidArgument, QueueNotFound
from pgqpy.spark.source.partitions import whole_schema
from tests.spark.feed import CONSUMER, Feed, Stream, crashed, datas, read, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

SHOP = "shop.orders"


@pytest.fixture
def feeds(client: Any, dsn: str) -> dict[str, Feed]:
    """Three queues, with an event in each."""
    feeds = {name: Feed(client, dsn, name) for name in (SHOP, "shop.refunds", "other")}
    for name, feed in feeds.items():
        feed.insert(f"{name} 1")
    return feeds


@pytest.fixture
def shop(start: Callable[..., Stream], feeds: dict[str, Feed]) -> Callable[..., Stream]:
    """Make a stream of the shop's queues, however many there are."""
    return partial(start, queue="shop.*")


def ticks(offset: dict[str, Any]) -> dict[str, int]:
    return {queue: each["tick"] for queue, each in offset.items()}


@pytest.mark.parametrize("queue", ["shop.*", "shop.refunds, shop.orders", "shop.refunds,shop.o*"])
def test_a_batch_reads_them_all_and_says_from_which_queue(feeds, queue):
    found = read(feeds[SHOP].batch(queue=queue))
    assert {(row["queue"], row["ev_data"]) for row in found} == {
        (SHOP, "shop.orders 1"),
        ("shop.refunds", "shop.refunds 1"),
    }
    one = feeds[SHOP].source(queue=SHOP).schema()
    assert "queue" not in one.names
    named = whole_schema(several=True)
    assert [row["queue"] for row in read(feeds[SHOP].batch(schema=named))] == [SHOP]
    only = type(named)([named["queue"]])
    assert read(feeds[SHOP].batch(schema=only)) == [{"queue": SHOP}]


def test_a_batch_has_a_range_for_each_queue(feeds):
    feeds[SHOP].insert("second")
    batch = feeds[SHOP].batch(queue="shop.*", startingOffsets={SHOP: 2}, minPartitions=4)
    assert datas(read(batch)) == ["second", "shop.refunds 1"]
    batch = feeds[SHOP].batch(queue="shop.*", endingOffsets={SHOP: 2})
    assert datas(read(batch)) == ["shop.orders 1", "shop.refunds 1"]
    with pytest.raises(InvalidArgument, match="'tick' is none of the queues that are read"):
        feeds[SHOP].batch(queue="shop.*", startingOffsets={"tick": 2}).partitions()


def test_a_queue_whose_name_looks_like_a_list_is_one_queue(client, dsn):
    feed = Feed(client, dsn, "a,b*")
    feed.insert("a")
    assert datas(read(feed.batch())) == ["a"]


@pytest.mark.parametrize("queue", ["shopping.*", "shop.orders,missing"])
def test_what_no_queue_is_called_is_refused(feeds, queue):
    with pytest.raises(QueueNotFound):
        feeds[SHOP].source(queue=queue).schema()


def test_a_stream_has_an_offset_for_each_queue_and_moves_what_has_events(feeds, shop):
    stream = shop(startingOffsets="earliest").begin()
    assert ticks(stream.offset) == {SHOP: 1, "shop.refunds": 1}
    assert stream.datas() == ["shop.orders 1", "shop.refunds 1"]
    feeds["shop.refunds"].insert("second")
    assert stream.datas() == ["second"]
    assert ticks(stream.offset) == {SHOP: 2, "shop.refunds": 3}
    stream.run()
    stream.reader.commit(stream.offset)
    assert position(feeds, SHOP) == 2
    assert position(feeds, "shop.refunds") == 3
    newest = stream.reader.reportLatestOffset()
    assert {queue: each["events_behind"] for queue, each in newest.items()} == {
        SHOP: 0,
        "shop.refunds": 0,
    }


def test_limits_are_shared_by_the_queues_that_have_events(feeds, shop):
    for feed in feeds.values():
        for number in range(3):
            feed.insert(f"{feed.queue} {number}")
    stream = shop(startingOffsets="earliest", maxEventsPerTrigger=4).begin()
    assert [len(stream.run()) for _ in range(3)] == [4, 4, 0]


def test_a_restart_goes_on_in_each_queue(feeds, shop):
    offset = crashed(shop(startingOffsets=json.dumps({SHOP: 2, "shop.refunds": 1})).begin())
    assert shop().resume(offset).datas() == ["shop.refunds 1"]


def position(feeds: dict[str, Feed], queue: str) -> int:
    query = """
        select pos_last_tick from pgq.current_position
          join pgq.queue on queue_id = sub_queue join pgq.consumer on co_id = sub_consumer
         where queue_name = %s and co_name = %s"""
    row = feeds[queue].client.connection.execute(query, [queue, CONSUMER]).fetchone()
    assert row is not None
    return int(row[0])


def test_a_new_queue_joins_at_its_first_tick_and_a_repeated_micro_batch_is_the_same(
    feeds, client, shop
):
    stream = shop().begin()
    new = Feed(client, feeds[SHOP].dsn, "shop.returns")
    new.insert("first")
    feeds[SHOP].insert("second")
    before, end = stream.offset, stream.latest()
    assert ticks(end) == {SHOP: 3, "shop.refunds": 2, "shop.returns": 1}
    planned = stream.reader.partitions(before, end)
    assert datas(rows_of(stream.reader, planned)) == ["second"]
    stream.close()
    new.insert("later")
    again = shop().resume(before)
    assert datas(rows_of(again.reader, again.reader.partitions(before, end))) == ["second"]
    assert again.resume(end).datas() == ["first", "later"]


def test_a_queue_joins_again_where_it_joined_if_the_driver_dies_before_it_is_written(
    feeds, client, shop
):
    stream = shop().begin()
    new = Feed(client, feeds[SHOP].dsn, "shop.returns")
    new.insert("first")
    stream.latest()
    offset = crashed(stream)
    new.insert("second")
    again = shop().resume(offset)
    assert again.run() == []
    assert again.datas() == ["first", "second"]


def test_a_queue_that_joined_in_a_pending_micro_batch_may_be_dropped(feeds, client, shop, caplog):
    stream = shop().begin()
    Feed(client, feeds[SHOP].dsn, "shop.returns").insert("first")
    feeds[SHOP].insert("second")
    before, end = stream.offset, stream.latest()
    stream.close()
    client.drop_queue("shop.returns", force=True)
    again = shop().resume(before)
    assert datas(rows_of(again.reader, again.reader.partitions(before, end))) == ["second"]
    assert "was dropped" in caplog.text


def test_a_queue_joins_at_the_tick_that_the_options_name_also_where_it_was_read_before(feeds, shop):
    crashed_query = shop(queue="shop.refunds", startingOffsets="earliest").begin()
    crashed_query.run()
    crashed_query.close()
    offset = crashed(shop(queue=SHOP).begin())
    named = {"shop.refunds": 1, "shop.gone": 5}
    again = shop(startingOffsets=named).resume(offset)
    assert again.run() == []
    assert again.datas() == ["shop.refunds 1"]


def test_a_queue_that_is_created_again_under_a_stream_is_no_end_of_it(feeds, client, shop):
    stream = shop().begin()
    client.drop_queue("shop.refunds", force=True)
    new = Feed(client, feeds[SHOP].dsn, "shop.refunds")
    new.insert("new")
    with pytest.raises(QueueNotFound, match="start the query again"):
        stream.run()
    again = shop().resume(crashed(stream))
    assert [again.datas(), again.datas()] == [[], ["new"]]


def test_a_queue_that_was_dropped_is_left_out_and_one_that_is_not_named_is_refused(
    feeds, client, shop, caplog
):
    stream = shop().begin()
    offset = crashed(stream)
    feeds[SHOP].insert("second")
    with pytest.raises(QueueNotFound, match=r"has queue 'shop\.refunds', which option queue, 's"):
        shop(queue=f"{SHOP},other").resume(offset).latest()
    client.drop_queue("shop.refunds", force=True)
    again = shop().resume(offset)
    assert again.datas() == ["second"]
    assert "was dropped" in caplog.text
    assert ticks(again.offset) == {SHOP: 3}


def test_available_now_ends_where_each_queue_was(feeds, shop):
    stream = shop(startingOffsets="earliest")
    stream.reader.prepareForTriggerAvailableNow()
    stream.begin()
    feeds[SHOP].insert("later")
    assert stream.datas() == ["shop.orders 1", "shop.refunds 1"]
    assert stream.latest() == stream.offset
