"""What goes wrong with a stream is said at once, with the option and what to do."""

from __future__ import annotations

import pytest

from pgqpy import calls
from pgqpy.errors import (
    ConsumerNotFound,
    ConsumerRunning,
    InvalidArgument,
    NotFound,
    QueueNotFound,
    RangeExpired,
)
from pgqpy.spark.source.partitions import whole_schema
from tests.spark.feed import CONSUMER, QUEUE, Feed, crashed
from tests.support.sqlstates import refused


@pytest.mark.parametrize(("tick", "left"), [(1, ["a"]), (2, [])])
def test_a_deleted_checkpoint_is_noticed_and_what_was_processed_may_be_skipped(
    feed, start, tick, left
):
    stream = start().begin()
    feed.insert("a")
    stream.run()
    stream.close()
    with refused("PQ017") as caught:
        start().begin()
    assert 'startingOffsets={"orders": 1}' in str(caught.value)
    assert 'startingOffsets={"orders": 2}' in str(caught.value)
    assert start(startingOffsets=f'{{"orders": {tick}}}').begin().datas() == left


def test_an_open_batch_is_somebody_elses(feed, client, start):
    client.register_consumer(feed.queue, CONSUMER)
    feed.insert("a")
    client.next_batch(feed.queue, CONSUMER)
    with pytest.raises(ConsumerRunning, match="open: finish it"):
        start().begin()


def test_a_consumer_that_went_on_without_the_checkpoint_is_noticed(feed, client, start):
    stream = start().begin()
    feed.insert("a")
    offset = crashed(stream)
    feed.insert("b")
    batch = client.next_batch(feed.queue, CONSUMER)
    client.finish_batch(batch)
    with pytest.raises(ConsumerRunning, match="beyond the checkpoint's tick 1"):
        start().resume(offset).run()
    client.register_consumer_at(feed.queue, CONSUMER, 1)
    assert start().resume(offset).datas() == ["a", "b"]


def test_another_consumers_checkpoint_is_refused(feed, start):
    offset = crashed(start().begin())
    with pytest.raises(InvalidArgument) as caught:
        start(consumer="other").resume(offset).run()
    assert caught.value.parameter == "consumer"
    assert "new checkpointLocation" in str(caught.value)


def test_an_unregistered_consumer_goes_on_if_nothing_is_lost(feed, client, start, caplog):
    offset = crashed(start().begin())
    client.unregister_consumer(feed.queue, CONSUMER)
    feed.insert("a")
    assert start().resume(offset).datas() == ["a"]
    assert "registered it again at tick 1" in caplog.text


def test_an_expired_checkpoint_is_an_error_unless_loss_is_no_failure(feed, client, start, caplog):
    expired = crashed(start().begin())
    client.unregister_consumer(feed.queue, CONSUMER)
    feed.insert("a")
    feed.rotate()
    feed.insert("b")
    with pytest.raises(RangeExpired) as caught:
        start().resume(expired).run()
    first = caught.value.first_tick
    assert (first or 0) > 1
    assert f"those from tick 1 ({expired[QUEUE]['time']}) to tick {first} (20" in str(caught.value)
    assert "new checkpointLocation and startingOffsets" in str(caught.value)
    assert start(startingOffsets="earliest").begin().datas() == ["b"]
    client.unregister_consumer(feed.queue, CONSUMER)
    stream = start(failOnDataLoss="false").resume(expired)
    assert stream.datas() == ["b"]
    assert "as failOnDataLoss is false" in caplog.text
    feed.insert("c")
    assert stream.datas() == ["c"]


def test_a_checkpoint_whose_tick_was_thinned_out_goes_on_before_it(feed, client, start):
    stream = start().begin()
    feed.insert("a")
    stream.run()
    offset = crashed(stream)
    client.unregister_consumer(feed.queue, CONSUMER)
    feed.insert("b")
    client.connection.execute("delete from pgq.tick where tick_id = 2")
    with pytest.raises(NotFound, match="not kept tick 2 of the checkpoint") as caught:
        start().resume(offset).run()
    assert 'startingOffsets={"orders": 1}' in str(caught.value)
    assert start(startingOffsets={"orders": 1}).begin().datas() == ["a", "b"]


def test_a_start_in_the_future_or_thinned_out_is_refused_with_what_there_is(feed, client, start):
    with refused("PQ005") as caught:
        start(startingOffsets='{"orders": 99}').begin()
    assert "startingOffsets: tick 99 is in the future" in str(caught.value)
    assert "name one from 1 to 1" in str(caught.value)
    with pytest.raises(InvalidArgument, match=r"startingTimestamp: .* is in the future"):
        start(startingTimestamp="2999-01-01T00:00:00Z").begin()
    for _ in range(4):
        feed.tick()
    client.connection.execute("delete from pgq.tick where tick_id = 3")
    with pytest.raises(NotFound, match="name 2 or 4"):
        start(startingOffsets={"orders": 3}).begin()


@pytest.mark.parametrize(("ticks_since", "running"), [(0, True), (1, True), (1, False), (4, False)])
def test_ticks_that_the_server_lost_end_the_query(feed, start, running, ticks_since):
    """A standby that lagged took over: it has no tick 3, or gave that number to another tick."""
    stream = start().begin()
    for data in ("a", "b"):
        feed.insert(data)
        stream.run()
    if not running:
        stream = start().resume(crashed(stream))
    connection = feed.client.connection
    connection.execute("delete from pgq.tick where tick_id > 2")
    connection.execute("delete from pgq.position where pos_last_tick > 1 or pos_pins[2] > 2")
    connection.execute("select setval(queue_tick_seq::regclass, 2) from pgq.queue")
    for number in range(ticks_since):
        feed.insert(f"new {number}")
    with pytest.raises(NotFound, match="has lost tick 3, where the query was at 20") as caught:
        stream.run()
    assert 'startingOffsets={"orders": 1}' in str(caught.value)
    stream.close()
    again = start(startingOffsets='{"orders": 1}').begin().datas()
    assert set(again) >= {f"new {number}" for number in range(ticks_since)}


@pytest.mark.parametrize("call", ["plan", "advance"])
def test_a_micro_batch_whose_ticks_the_server_lost_is_not_read(feed, start, call):
    stream = start().begin()
    feed.insert("a")
    end = stream.latest()
    wrong = {QUEUE: {**end[QUEUE], "time": "2026-01-01T00:00:00.000000Z"}}
    with pytest.raises(NotFound, match="has lost tick 2"):
        if call == "plan":
            stream.reader.partitions(stream.offset, wrong)
        else:
            stream.reader.commit(wrong)
    assert feed.standing()[0] == 1


def test_a_consumer_unregistered_under_a_query_is_named_and_a_restart_goes_on(feed, client, start):
    stream = start().begin()
    feed.insert("a")
    assert stream.datas() == ["a"]
    client.unregister_consumer(feed.queue, CONSUMER)
    with pytest.raises(ConsumerNotFound, match="start the query again") as caught:
        stream.run()
    assert (caught.value.queue, caught.value.consumer) == (feed.queue, CONSUMER)
    offset = crashed(stream)
    feed.insert("b")
    assert start().resume(offset).datas() == ["b"]


def test_a_queue_that_was_created_again_is_another_one(feed, client, start):
    stream = start().begin()
    client.drop_queue(feed.queue, force=True)
    Feed(client, feed.dsn)
    with pytest.raises(QueueNotFound, match="dropped and created again"):
        stream.run()
    with pytest.raises(QueueNotFound, match="new checkpointLocation"):
        start().resume(crashed(stream)).run()


def test_a_checkpoint_goes_on_under_the_new_name_of_its_queue(feed, client, start):
    stream = start().begin()
    client.call(calls.admin.rename_queue(feed.queue, "purchases"))
    with pytest.raises(QueueNotFound, match="was renamed to purchases"):
        stream.run()
    offset = crashed(stream)
    with pytest.raises(QueueNotFound, match="was renamed to purchases"):
        start().resume(offset).run()
    feed.queue = "purchases"
    feed.insert("a")
    assert start().resume(offset).datas() == ["a"]


def test_the_checkpoint_of_another_queue_names_that_queue(feed, client, start):
    offset = crashed(start().begin())
    Feed(client, feed.dsn, "other")
    with pytest.raises(QueueNotFound, match="has queue 'orders', which option queue, 'other', la"):
        start(queue="other", schema=whole_schema()).resume(offset).run()
    feed.insert("a")
    assert start().resume(offset).datas() == ["a"]


def test_an_end_that_rotation_took_asks_for_a_later_one(feed):
    feed.insert("a")
    feed.rotate()
    for option, value in (("endingOffsets", {"orders": 1}), ("endingTimestamp", "1000")):
        with pytest.raises(RangeExpired, match=f"{option}: .* name a later end"):
            feed.batch(**{option: value}).partitions()


def test_a_new_consumer_that_passes_over_events_says_how_to_read_them(feed, start, caplog):
    start(consumer="early").begin()
    feed.insert("a")
    start(consumer="other_types", types="none").begin()
    assert "passes over" not in caplog.text
    start().begin().close()
    assert "consumer lake of queue orders is new: the query begins at tick 2" in caplog.text
    assert start(startingOffsets="earliest").begin().datas() == ["a"]
