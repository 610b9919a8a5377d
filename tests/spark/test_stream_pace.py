"""How much a micro-batch takes, and how often a stream asks."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.support.waiting import eventually


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
    assert end["tick"] == 4


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
    monkeypatch.setattr("pgqpy.spark.data_source.time.monotonic", lambda: now[0])
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
    stream.reader._poll_at = float("inf")
    assert stream.ask()["tick"] == 1
    feed.insert("a")
    eventually(lambda: stream.ask()["tick"] == 2)


def statements(feed, stream):
    """Count how often a stream's session waits for the server from here on."""
    connection = stream.reader.subscription.connection._session.connection
    sent, wait = [], connection.wait

    def counting(generator, *args, **kwargs):
        sent.append(1)
        return wait(generator, *args, **kwargs)

    connection.wait = counting
    return lambda: len(sent)


def test_it_tells_how_far_the_queue_is(feed, start):
    stream = start()
    assert stream.reader.reportLatestOffset() is None
    stream.begin()
    feed.insert("a")
    stream.run()
    assert stream.reader.reportLatestOffset() == stream.offset
