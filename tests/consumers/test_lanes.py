"""Lanes: several processes run one consumer, and the events of a key stay in order."""

from __future__ import annotations

import pytest

from pgqpy import calls
from pgqpy.consumers import crash
from pgqpy.errors import ConsumerNotFound
from tests.consumers.harness import CONSUMER, NOTE, QUEUE
from tests.consumers.lanes import KEYS, LANES, in_order, insert, lanes, works
from tests.consumers.play import Play
from tests.consumers.workers import taken
from tests.support.waiting import eventually

SHAPES = [
    {},
    {"transactional": True, "part_size": 2},
    {"concurrency": 4},
]


@pytest.fixture
def handler(connect):
    """Note the event: for each kind of consumer."""

    def transactional(event):
        yield NOTE, [event.data]

    def plain(event):
        with connect() as other:
            other.execute(NOTE, [event.data])

    return {True: transactional, False: plain}


@pytest.mark.parametrize("settings", SHAPES)
def test_runs_share_the_lanes_and_keep_the_order_of_each_key(
    queue, make, effects, handler, connection, settings
):
    before = insert(queue, range(3))
    note = handler[settings.get("transactional", False)]
    started = [make.start(note, **LANES, **settings) for _ in range(3)]
    eventually(lambda: all(map(works, started)))
    after = insert(queue, range(3, 12))
    queue.wait_until_finished()
    assert sorted(effects()) == sorted(before + after)
    assert in_order(effects())
    for running in started:
        running.stop()
    assert lanes(connection) == [f"extra1-{number}-of-4" for number in range(1, 5)]
    assert taken(connection) == []


@pytest.mark.parametrize("transactional", [False, True])
def test_runs_have_lanes_at_the_same_time(
    queue, make, effects, gate, waiting_handler, connection, transactional
):
    for _ in range(3):
        make.start(waiting_handler[transactional], **LANES, transactional=transactional)
    datas = insert(queue, [1])
    eventually(lambda: len(gate.waiting()) == 3)
    assert len(set(taken(connection))) == 3
    gate.open()
    eventually(lambda: sorted(effects()) == sorted(datas))


def test_handlers_side_by_side_have_events_of_different_keys(queue, make_sync):
    play = Play()
    play.hold("a:0001", "b:0001")
    for _ in range(2):
        make_sync.start(play.handle, **LANES | {"lanes": 1}, concurrency=4)
    insert(queue, [1, 2], ["a", "b"])
    try:
        play.wait_for("a:0001", "b:0001")
        insert(queue, [3], ["a", "b"])
        play.release("b:0001")
        eventually(lambda: play.ended in (["b:0001"], ["b:0001", "b:0002"]))
        play.release("a:0001")
        queue.wait_until_finished()
    finally:
        play.release(*play.held)
    assert in_order(play.begun)
    assert len(play.begun) == 6


def test_events_without_a_key_come_too(queue, make):
    seen = []
    make.start(lambda event: seen.append(event.data), **LANES)
    queue.deliver(*map(str, range(20)))
    assert sorted(map(int, seen)) == list(range(20))


def test_lanes_have_only_events_that_the_consumer_takes(queue, make):
    seen = []
    chosen = LANES | {"filter": {"type": ["a.*"]}}
    for _ in range(2):
        make.start(lambda event: seen.append(event.type), **chosen)
    for number in range(10):
        for kind in ("a.x", "b.x"):
            queue.client.insert_event(QUEUE, kind, "data", extra1=f"key{number}")
    queue.tick()
    queue.wait_until_finished()
    assert seen == ["a.x"] * 10


def test_process_batch_gets_batches_of_lanes(queue, make_sync, connection):
    seen = []

    def read(consumer, batch):
        seen.append((batch.info.consumer, [event.extra1 for event in batch]))

    make_sync.start(process_batch=read, **LANES)
    insert(queue, [1])
    queue.wait_until_finished()
    assert sorted(key for _, keys in seen for key in keys) == sorted(KEYS)
    assert {name for name, _ in seen} <= {f"{CONSUMER}.{lane}" for lane in lanes(connection)}


@pytest.mark.parametrize("transactional", [False, True])
def test_a_retried_event_comes_again_in_the_lane_of_its_key(queue, make, transactional):
    seen = []

    def handler(event):
        seen.append((event.data, event.retry))
        if event.retry is None and event.extra1 == "key3":
            raise ValueError("no")
        return ()

    settings = {"transactional": transactional, "backoff": (0, 3600.0)}
    for _ in range(2):
        make.start(handler, **LANES, **settings)
    insert(queue, [1])
    queue.wait_until_finished()
    # Another number of lanes changes nothing: the consumer owns the event.
    queue.client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 3, "extra1"))
    assert queue.retry_now() == 1
    queue.wait_until_finished()
    eventually(lambda: seen[-1] == ("key3:0001", 1))


@pytest.mark.parametrize("transactional", [False, True])
def test_an_event_that_killed_its_runs_too_often_is_dead(
    queue, make, connection, client, log, transactional, monkeypatch
):
    """A run that has died left the batch in parts of one event."""
    monkeypatch.setattr(crash, "GRACE", 0)
    queue.client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, 1, "extra1"))
    queue.insert("a", "b", "c")
    connection.execute("select pgq.take_lane(%s, %s, 'dead')", [QUEUE, CONSUMER])
    connection.execute("update pgq.position set pos_part = 1, pos_tries = 1 where pos_batch > 0")
    seen = []

    def handler(event):
        seen.append(event.data)
        return ()

    settings = {**LANES, "lanes": 1}
    make.start(handler, **settings, transactional=transactional)
    eventually(lambda: not taken(connection))
    assert seen == ["b", "c"]
    assert [event.ev_data for event in client.get_dead_events(QUEUE, CONSUMER)] == ["a"]
    assert "crashed, for the 2. time at the same event" in log.text
    queue.insert("d")
    eventually(lambda: seen == ["b", "c", "d"])


@pytest.mark.parametrize("settings", SHAPES[:2])
def test_a_run_that_stops_releases_its_lane_at_once(queue, make, connection, log, settings):
    seen = []

    def once(event):
        seen.append(event.data)
        first.stop()
        return ()

    first = make.consumer(once, **LANES | {"lanes": 1}, **settings)
    running = make.run(first)
    queue.insert("a", "b", "c")
    running.join()

    def note(event):
        seen.append(event.data)
        return ()

    make.start(note, **LANES | {"lanes": 1}, dead_interval=3600, **settings)
    eventually(lambda: seen[-1] == "c" and not taken(connection))
    assert f"consumer {CONSUMER} of queue {QUEUE} stops" in log.text
    assert "crash" not in log.text
    assert "could not tell" not in log.text


@pytest.mark.parametrize("number", [3, 7])
def test_the_number_of_lanes_changes_while_runs_work(
    queue, make, effects, handler, connection, client, log, number
):
    started = [make.start(handler[False], **LANES) for _ in range(2)]
    datas = insert(queue, range(4))
    eventually(lambda: all(map(works, started)))
    assert client.call(calls.lanes.set_lanes(QUEUE, CONSUMER, number, "extra1")) == 1
    datas += insert(queue, range(4, 8))
    eventually(lambda: len(lanes(connection)) == number)
    datas += insert(queue, range(8, 10))
    queue.wait_until_finished()
    eventually(lambda: sorted(effects()) == sorted(datas))
    assert in_order(effects())
    for running in started:
        running.stop()
    again = make.start(handler[False], **LANES)
    eventually(lambda: works(again))
    text = f"has {number} lanes, not 4: `pgqpy consumer set` changes it"
    assert [text in record.message for record in log.records if record.levelno > 20] == [True]


def test_a_consumer_that_is_unregistered_ends_its_runs(queue, make, client):
    started = [make.start(lambda event: None, **LANES) for _ in range(2)]
    eventually(lambda: all(map(works, started)))
    client.unregister_consumer(QUEUE, CONSUMER)
    for running in started:
        with pytest.raises(ConsumerNotFound):
            running.join()
