"""How much a micro-batch takes, and how often a stream asks."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pgqpy import tick_ranges
from pgqpy.tick_ranges import find_tick_times, has_events
from tests.spark.feed import QUEUE
from tests.support.waiting import eventually

LATER = """
    update pgq.tick set tick_time = first.tick_time + %s * interval '1 second'
      from pgq.tick first where first.tick_id = 1 and tick.tick_id = %s"""


@pytest.mark.parametrize(
    ("limit", "most", "taken"),
    [("maxEventsPerTrigger", 5, [5, 4, 9, 1, 0]), ("maxTicksPerTrigger", 2, [5, 13, 1, 0, 0])],
)
def test_micro_batches_are_whole_ticks_up_to_a_number_of_events_or_ticks(
    feed, start, limit, most, taken
):
    stream = start(**{limit: most}).begin()
    for count in (2, 3, 4, 9, 1):
        feed.insert(*map(str, range(count)))
    assert [len(stream.run()) for _ in range(5)] == taken


def test_trigger_once_takes_all_at_once(feed, start):
    stream = start(startingOffsets="earliest", maxEventsPerTrigger=1)
    for data in "abc":
        feed.insert(data)
    stream.offset = stream.reader.initialOffset()
    end = stream.reader.latestOffset(stream.offset, ReadAllAvailable())
    assert end[QUEUE]["tick"] == 4


@pytest.mark.parametrize("limits", [{}, {"maxTicksPerTrigger": 1}])
def test_available_now_ends_at_the_tick_of_its_beginning(feed, start, limits):
    stream = start(startingOffsets="earliest", **limits)
    feed.insert("a")
    feed.insert("b")
    stream.reader.prepareForTriggerAvailableNow()
    stream.begin()
    feed.insert("later")
    taken = [stream.datas() for _ in range(3)]
    assert taken == ([["a"], ["b"], []] if limits else [["a", "b"], [], []])


def test_available_now_takes_all_even_if_its_last_tick_is_thinned_out(feed, client, start):
    stream = start(startingOffsets="earliest")
    feed.insert("a")
    stream.reader.prepareForTriggerAvailableNow()
    stream.begin()
    feed.insert("b")
    client.connection.execute("delete from pgq.tick where tick_id = 2")
    assert stream.datas() == ["a", "b"]
    assert stream.latest() == stream.offset


def test_an_idle_query_asks_the_server_once_a_second(feed, start, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("pgqpy.spark.source.stream.time.monotonic", lambda: now[0])
    stream = start().begin()
    count = statements(feed, stream)
    for _ in range(800):
        stream.ask()
        stream.reader.reportLatestOffset()
        now[0] += 0.0125  # as often as Spark
    assert 9 <= count() <= 12


def test_a_tick_is_noticed_without_waiting_for_the_next_look(feed, start):
    stream = start().begin()
    stream.run()
    stream.of_queue.poll_at = float("inf")
    assert stream.ask()[QUEUE]["tick"] == 1
    feed.insert("a")
    eventually(lambda: stream.ask()[QUEUE]["tick"] == 2)


def statements(feed, stream):
    """Count how often a stream's session waits for the server from here on."""
    connection = stream.of_queue.subscription.connection._session.connection
    sent, wait = [], connection.wait

    def counting(generator, *args, **kwargs):
        sent.append(1)
        return wait(generator, *args, **kwargs)

    connection.wait = counting
    return lambda: len(sent)


def test_it_tells_how_far_it_is_behind_the_queue(feed, client, start):
    stream = start(maxTicksPerTrigger=1)
    assert stream.reader.reportLatestOffset() is None
    stream.begin()
    for datas in ("a", "bc", "def"):
        feed.insert(*datas)
    client.connection.execute(
        "update pgq.tick set tick_time = tick_time + interval '1 hour' where tick_id = 4"
    )
    stream.run()
    behind = stream.reader.reportLatestOffset()[QUEUE]
    assert (behind["tick"], behind["events_behind"], behind["ticks_behind"]) == (4, 5, 2)
    assert 3600 <= behind["seconds_behind"] < 3700
    stream.run()
    stream.run()
    feed.tick()
    stream.run()
    none = {"events_behind": 0, "ticks_behind": 0, "seconds_behind": 0.0}
    newest = {**stream.of_queue.newest._asdict(), **none}
    assert stream.reader.reportLatestOffset() == {QUEUE: newest}


@pytest.fixture
def probed(monkeypatch):
    """The ranges in which a stream looked for an event."""
    ranges = []

    def looking(client, queue, first, last, types):
        ranges.append((first, last))
        return has_events(client, queue, first, last, types)

    monkeypatch.setattr(tick_ranges, "has_events", looking)
    return ranges


def test_an_idle_queue_makes_no_micro_batch(feed, start, probed):
    stream = start().begin()
    for _ in range(3):
        feed.tick()
        assert stream.latest() == stream.offset
        assert stream.latest() == stream.offset
    assert feed.standing() == (1, [])
    feed.insert("a")
    assert stream.datas() == ["a"]
    assert feed.standing() == (1, [5])
    assert probed == [(1, 2), (2, 3), (3, 4), (4, 5)]


def test_events_of_other_types_make_no_micro_batch_and_are_not_read_twice(feed, start, probed):
    stream = start(types="wanted", maxEventsPerTrigger=2).begin()
    feed.insert("a", "b", type="other")
    feed.insert("c", type="other")
    assert stream.latest() == stream.offset
    feed.insert("d", type="other")
    feed.insert("e", type="wanted")
    end = stream.latest()
    assert probed == [(1, 2), (2, 3), (3, 5)]
    (partition,) = stream.reader.partitions(stream.offset, end)
    assert (partition.from_tick, partition.to_tick) == (3, 5)
    assert stream.datas() == ["e"]


def test_nothing_is_passed_over_if_the_ticks_that_hold_nothing_are_thinned_out(feed, client, start):
    stream = start(types="wanted").begin()
    feed.tick()
    feed.tick()
    assert stream.latest() == stream.offset
    feed.insert("a", type="wanted")
    client.connection.execute("update pgq.tick set tick_time = date_trunc('second', now())")
    stream.offset[QUEUE]["time"] = find_tick_times(client, 1, 1)[1]
    client.connection.execute("select pgq.compact_ticks()")
    assert client.connection.execute("select tick_id from pgq.tick").fetchall() == [(1,), (4,)]
    assert stream.datas() == ["a"]


def test_what_was_found_to_hold_nothing_is_read_again_in_another_session(
    feed, client, start, probed
):
    """The server may have lost the ticks, and given their numbers to others."""
    stream = start().begin()
    feed.tick()
    feed.tick()
    assert stream.latest() == stream.offset
    client.connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'pgqpy spark lake' and datname = current_database()"
    )
    feed.insert("a")
    eventually(lambda: stream.latest()[QUEUE]["tick"] == 4)
    assert probed == [(1, 3), (1, 4)]
    assert stream.datas() == ["a"]


def test_the_last_micro_batch_is_not_kept_while_nothing_comes(feed, start):
    stream = start().begin()
    feed.insert("a")
    assert stream.datas() == ["a"]
    assert feed.standing() == (1, [2])
    feed.tick()
    assert stream.latest() == stream.offset
    assert feed.standing() == (2, [])


def test_an_hour_without_events_is_a_micro_batch_so_that_rotation_goes_on(feed, client, start):
    stream = start(types="wanted").begin()
    feed.insert("a", type="other")
    client.connection.execute(LATER, [3599, 2])
    assert stream.latest() == stream.offset
    feed.tick()
    client.connection.execute(LATER, [3601, 3])
    assert stream.run() == []
    assert feed.standing() == (1, [3])
    assert stream.run() == []
    assert feed.standing() == (3, [])


def test_available_now_ends_although_the_rest_holds_nothing(feed, start):
    stream = start(startingOffsets="earliest", types="wanted")
    feed.insert("a", type="wanted")
    feed.insert("b", type="other")
    stream.reader.prepareForTriggerAvailableNow()
    stream.begin()
    assert stream.datas() == ["a"]
    assert stream.latest() == stream.offset


def test_trigger_once_takes_ticks_that_hold_nothing(feed, start):
    stream = start(startingOffsets="earliest")
    feed.tick()
    stream.offset = stream.reader.initialOffset()
    assert stream.reader.latestOffset(stream.offset, ReadAllAvailable())[QUEUE]["tick"] == 2
