"""Several events of a batch side by side: how many, in which order, and how they end."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone

import pytest

from pgqpy import calls
from pgqpy.consumers import AsyncConsumer, Consumer, Retry
from pgqpy.consumers.workers import EventWindow
from pgqpy.records import Event
from tests.consumers.harness import CONSUMER, END, QUEUE, Running
from tests.consumers.play import TIMEOUT, Play
from tests.support.waiting import eventually


@pytest.fixture
def play():
    return Play()


@pytest.fixture
def start(request, dsn, asynchronous, play):
    """Run a consumer whose handlers block in threads of their own."""
    started = []

    class Threads(Consumer):
        queue, name = QUEUE, CONSUMER

        def process_event(self, event):
            play.handle(event)

    class Tasks(AsyncConsumer):
        queue, name = QUEUE, CONSUMER

        async def process_event(self, event):
            await asyncio.to_thread(play.handle, event)

    def starter(**settings):
        running = Running((Tasks if asynchronous else Threads)(dsn, **settings))
        started.append(running)
        return running

    yield starter
    play.release(*play.held)
    for running in started:
        running.consumer.stop()
        running.thread.join(TIMEOUT)


def test_as_many_events_as_wanted_run_side_by_side_and_no_more(queue, start, play):
    play.hold(*"abc")
    start(concurrency=3)
    queue.insert(*"abcdef")
    play.wait_for(*"abc")
    play.release(*"abc")
    queue.wait_until_finished()
    assert sorted(play.ended) == list("abcdef")
    assert play.most == 3


def test_a_slow_event_delays_only_the_end_of_its_batch(queue, start, play):
    play.hold("slow")
    start(concurrency=2)
    queue.insert("slow", "b", "c", "d")
    eventually(lambda: play.ended == ["b", "c", "d"])
    assert queue.open_batch() is not None
    play.release("slow")
    queue.wait_until_finished()


def test_events_of_one_key_run_in_order_and_one_at_a_time(queue, client, start, play):
    for data in ("x1", "x2", "y1", "x3", "y2", "z1"):
        client.insert_event(QUEUE, "t", data, extra1=data[0])
    play.hold("x1", "y1")
    start(concurrency=4, key="extra1")
    queue.tick()
    eventually(lambda: play.ended == ["z1"])
    play.wait_for("x1", "y1")
    play.release("x1", "y1")
    queue.wait_until_finished()
    for key, number in (("x", 3), ("y", 2)):
        in_order = [f"{key}{n + 1}" for n in range(number)]
        assert [data for data in play.begun if data[0] == key] == in_order


def test_a_method_may_compute_the_key(queue, dsn, play):
    class Keyed(Consumer):
        queue, name, concurrency = QUEUE, CONSUMER, 4

        def key(self, event):
            return event.data[0]

        def process_event(self, event):
            play.handle(event)

    play.hold("x1")
    running = Running(Keyed(dsn))
    queue.insert("x1", "x2", "y1")
    eventually(lambda: play.ended == ["y1"])
    play.release("x1")
    queue.wait_until_finished()
    running.stop()
    assert play.ended == ["y1", "x1", "x2"]


@pytest.mark.parametrize("key", [lambda event: event.json(), lambda event: [event.data]])
def test_an_event_whose_key_cannot_be_computed_fails_alone(queue, start, play, key):
    start(concurrency=2, key=key)
    queue.deliver("no json", "1")
    failed = 1 if play.ended else 2  # a list is no key for either of them
    assert len(queue.retry_delays()) == failed


async def computed_later(data):
    return data


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (lambda event: computed_later(event.data), "key returned a coroutine, "),
        (lambda event: (letter for letter in event.data), "key returned a generator, "),
        (lambda event: map(str, event.data), "key returned a map, "),
        (lambda _event: float("nan"), "key returned nan, "),
    ],
)
def test_an_event_whose_key_equals_no_other_fails(queue, start, play, log, key, words):
    start(concurrency=2, key=key)
    queue.deliver("a", "b")
    assert play.begun == []
    assert len(queue.retry_delays()) == 2
    assert words in log.text


def test_stop_lets_running_events_end_and_starts_no_other(queue, start, play):
    play.hold("a", "b")
    running = start(concurrency=2)
    queue.insert(*"abcd")
    play.wait_for("a", "b")
    running.consumer.stop()
    play.release("a", "b")
    running.join()
    assert sorted(play.ended) == ["a", "b"]
    assert queue.open_batch() is not None
    start(concurrency=2)
    queue.wait_until_finished()
    assert sorted(play.ended) == ["a", "b", "c", "d"]  # the finished ones are kept


def test_failures_are_retried_and_given_up_as_with_one(queue, client, start, play):
    play.errors = {"b": ValueError("no"), "c": Retry(after=900)}
    start(concurrency=3, max_retries=0)
    queue.deliver(*"abcd")
    (delay,) = queue.retry_delays()
    assert 800 < delay <= 900
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert dead.ev_data == "b"


def test_an_error_that_stops_run_waits_for_the_other_events(queue, start, play):
    play.errors = {"bad": ValueError("stop here")}
    play.hold("slow")
    running = start(concurrency=2, on_error="stop")
    queue.insert("slow", "bad", "never")
    eventually(lambda: play.ended == ["bad"])
    play.release("slow")
    with pytest.raises(ValueError, match="stop here"):
        running.join()
    assert sorted(play.ended) == ["bad", "slow"]


def test_an_exit_in_a_handler_ends_run_after_the_other_events(queue, start, play):
    play.errors = {"exit": SystemExit(3)}
    play.hold("slow")
    running = start(concurrency=2)
    queue.insert("slow", "exit", "never")
    eventually(lambda: play.ended == ["exit"])
    assert running.thread.is_alive()
    play.release("slow")
    with pytest.raises(SystemExit):
        running.join()
    assert queue.open_batch() is not None


def test_nothing_starts_again_before_what_ran_at_a_lost_connection_has_ended(
    queue, client, start, play
):
    play.hold("a", "b")
    start(concurrency=2)
    queue.insert(*"abc")
    play.wait_for("a", "b")
    client.connection.execute(END)
    play.release("a")
    eventually(lambda: "a" in play.ended)
    assert play.begun.count("a") == 1
    play.release("b")
    queue.wait_until_finished()
    assert play.most == 2
    assert set(play.ended) == set("abc")


def test_a_process_that_gets_no_more_threads_goes_on_with_those_it_has(
    queue, dsn, play, monkeypatch, log
):
    class Threads(Consumer):
        queue, name, concurrency = QUEUE, CONSUMER, 8

        def process_event(self, event):
            play.handle(event)

    def start(thread):
        if thread.name == "pgqpy-worker-3":
            raise RuntimeError("can't start new thread")
        original(thread)

    original = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    queue.insert(*"abcdef")
    running = Running(Threads(dsn))
    queue.wait_until_finished()
    running.stop()
    assert sorted(play.ended) == list("abcdef")
    assert play.most <= 2
    assert "going on with 2 side by side" in log.text


def test_no_event_of_a_lost_batch_runs_beside_the_next_batch(queue, client, start, play):
    datas = [str(number) for number in range(10)]
    play.hold("0", "1")
    start(concurrency=2, part_size=1)
    queue.insert(*datas)
    play.wait_for("0", "1")
    (first, *_) = client.call(calls.ticks.get_tick_info(QUEUE))
    client.register_consumer_at(QUEUE, CONSUMER, first.tick_id)
    play.release("1")
    with pytest.raises(AssertionError):
        eventually(lambda: len(play.begun) > 2, timeout=0.5)
    play.release("0")
    queue.wait_until_finished()
    assert sorted(play.ended[2:]) == datas


def test_memory_holds_part_size_events(queue, start, play):
    datas = [str(number) for number in range(9)]
    play.hold(*datas)
    start(concurrency=100, part_size=4)
    queue.insert(*datas)
    eventually(lambda: len(play.running) == 3)  # and one that may have a copy in the next list
    play.release(*datas)
    queue.wait_until_finished()
    assert play.most <= 4
    assert sorted(play.ended) == datas


def test_the_window_starts_an_event_when_its_predecessor_has_finished():
    window = EventWindow()
    now = datetime.now(timezone.utc)
    for number, key in enumerate(["x", "x", None, "y", "x"]):
        window.add(Event(number, now, 1, None, "t", "", None, None, None, None), key)
    started = list(iter(window.take, None))
    assert [item.event.id for item in started] == [0, 2, 3]
    (x, *_) = started
    for following in (1, 4):
        window.finish(x)
        (x,) = iter(window.take, None)
        assert x.event.id == following
    assert len(window) == 3
