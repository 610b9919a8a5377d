"""A stream, called as Spark calls it: where it starts, what it keeps, when it moves on."""

from __future__ import annotations

import pickle
import threading

import pytest

import pgqpy
from tests.consumers.harness import installed
from tests.spark.feed import CONSUMER, Feed, crashed, rows_of


def test_a_new_consumer_begins_at_the_latest_tick(feed, start):
    feed.insert("before")
    stream = start().begin()
    assert stream.datas() == []
    feed.insert("a", "b")
    assert stream.datas() == ["a", "b"]
    feed.insert("c")
    assert stream.datas() == ["c"]


@pytest.mark.parametrize(
    ("options", "begin", "wanted"),
    [
        ({"startingOffsets": "earliest"}, 1, ["a", "b"]),
        ({"startingOffsets": "latest"}, 3, []),
        ({"startingOffsets": {"orders": 2}}, 2, ["b"]),
        ({"startingTimestamp": "2026-01-01T00:30:00Z"}, 2, ["b"]),  # the last tick before it
    ],
)
def test_it_begins_where_it_is_told_and_the_subscription_moves(
    feed, client, start, options, begin, wanted
):
    client.register_consumer(feed.queue, CONSUMER)
    feed.insert("a")
    client.connection.execute("update pgq.tick set tick_time = '2026-01-01 00:00:00Z'")
    feed.insert("b")
    assert start(**options).begin().datas() == wanted
    assert feed.standing()[0] == begin


def test_spark_asks_twice_where_to_begin_and_gets_one_answer(feed, start):
    stream = start(startingOffsets="latest")
    first = stream.reader.initialOffset()
    feed.insert("a")
    assert stream.reader.initialOffset() == first


def test_the_subscription_follows_when_spark_commits(feed, start):
    stream = start().begin()
    feed.insert("a")
    stream.run()
    assert feed.standing() == (1, [2])
    stream.reader.commit(stream.offset)
    assert feed.standing() == (2, [])
    stream.reader.commit(stream.offset)
    assert feed.standing() == (2, [])


def test_both_ends_are_pinned_before_spark_writes_them_down(feed, client, start):
    stream = start().begin()
    for data in "ab":
        feed.insert(data)
        stream.run()
    feed.insert("c")
    end = stream.latest()
    assert feed.standing() == (2, [3, 4])
    for _ in range(3):
        feed.tick()
    client.connection.execute("select pgq.compact_ticks()")
    stream.close()
    again = start().resume(stream.offset)
    partitions = again.reader.partitions(stream.offset, end)
    assert len(partitions) == 1


def test_types_are_chosen_by_the_server(feed, client, start):
    client.register_consumer(feed.queue, CONSUMER)
    client.set_consumer_filter(feed.queue, CONSUMER, types=["other"])
    stream = start(types="order.*,paid").begin()
    feed.insert("a", type="order.new")
    feed.insert("b", type="other")
    feed.insert("c", type="paid")
    assert stream.datas() == ["a", "c"]
    feed.insert("d", type="other")
    assert stream.datas() == []
    feed.insert("e", type="paid")
    assert stream.datas() == ["e"]


def test_a_micro_batch_is_the_same_when_it_comes_again(feed, client, start):
    stream = start().begin()
    feed.insert("a", "b")
    before = stream.offset
    rows = stream.run()
    after = crashed(stream)
    feed.insert("c")
    client.connection.execute("select pgq.compact_ticks()")
    feed.rotate()
    again = start().resume(before)
    partitions = again.reader.partitions(before, after)
    assert rows_of(again.reader, partitions) == rows
    again.offset = after
    assert again.datas() == ["c"]


def test_a_driver_killed_before_its_first_offset_is_written_leaves_no_trace(feed, start):
    stream = start(startingOffsets="earliest")
    feed.insert("a")
    stream.offset = stream.reader.initialOffset()
    assert stream.latest() == stream.offset  # what Spark writes first: no events, and no pin
    assert feed.standing() == (1, [])
    stream.close()
    assert start().begin().datas() == ["a"]


def test_who_plans_and_who_reads_has_no_connection(feed, start):
    stream = start().begin()
    copy = pickle.loads(pickle.dumps(stream.reader))
    assert copy._streams == {}
    assert copy._initial is None
    assert copy.options.queue == feed.queue
    assert b"lake" in pickle.dumps(copy)


def test_stopping_twice_and_before_the_start_is_safe(start):
    stream = start()
    stream.close()
    stream.begin()
    stream.close()
    stream.close()


def test_a_server_that_restarts_is_waited_for(own_server):
    with pgqpy.connect(installed(own_server)) as client:
        feed = Feed(client, own_server.dsn())
        stream = feed.stream().begin()
        feed.insert("a")
    own_server.stop("immediate")
    starter = threading.Timer(0.5, own_server.start)
    starter.start()
    assert stream.datas() == ["a"]
    starter.join()
    stream.close()
