"""Parts of events that are handled side by side: what is kept beside a slow event."""

from __future__ import annotations

import threading

import pytest

from pgqpy.consumers import Consumer
from pgqpy.consumers.parts import OutOfOrderEnd
from tests.consumers.harness import CONSUMER, END, QUEUE, Running
from tests.support.waiting import eventually

TEN = [str(number) for number in range(10)]


def test_a_part_never_ends_between_an_event_and_its_copy_in_the_next_list(queue, client, dsn):
    seen = []
    copy = threading.Event()

    class SideBySide(Consumer):
        queue, name, concurrency, part_size = QUEUE, CONSUMER, 2, 2
        min_count, min_interval, on_error = 4, 60, "stop"  # lists of one event

        def process_event(self, event):
            seen.append(event.data)
            if seen.count("b") == 2:
                copy.set()
            if event.data == "a" and not copy.is_set():
                assert copy.wait(30)
                raise ValueError("stumbled")

    (_, second) = queue.insert("a", "b")
    batch = client.next_batch(QUEUE, CONSUMER)
    client.event_retry(batch, second, 0)
    client.register_consumer_at(QUEUE, CONSUMER, batch.prev_tick_id)
    assert queue.retry_now() == 1
    queue.insert("c")
    with pytest.raises(ValueError, match="stumbled"):
        Running(SideBySide(dsn)).join()
    running = Running(SideBySide(dsn))
    queue.wait_until_finished()
    running.stop()
    # Both were kept if the copy was done before the error ended the part.
    assert (seen.count("a"), seen.count("b")) in {(2, 4), (2, 2)}


def test_side_by_side_finished_events_behind_a_slow_one_are_kept(queue, client, dsn):
    seen = []
    slow = threading.Event()

    class Slow(Consumer):
        queue, name, concurrency, part_size = QUEUE, CONSUMER, 2, 3

        def process_event(self, event):
            seen.append(event.data)
            if event.data == "0":
                assert slow.wait(30)

    ids = queue.insert(*TEN)
    running = Running(Slow(dsn))
    position = "select pos_from, pos_done from pgq.current_position"
    eventually(lambda: client.connection.execute(position).fetchone() == (None, ids[1:]))
    slow.set()
    running.stop()
    queue_left = client.connection.execute(position).fetchone()
    assert queue_left is not None
    assert seen == TEN


def test_events_finished_behind_a_slow_one_may_be_more_than_are_kept(queue, client, dsn):
    slow = [threading.Event(), threading.Event()]
    deliveries = iter(slow)
    handled = []

    class Slow(Consumer):
        queue, name, concurrency, part_size = QUEUE, CONSUMER, 4, 100

        def process_event(self, event):
            if event.data == "0000000000" and not next(deliveries).wait(30):
                raise TimeoutError
            handled.append(event.data)

    queue.fill(2000)
    running = Running(Slow(dsn))
    kept = "select cardinality(pos_done) from pgq.current_position"
    eventually(lambda: client.connection.execute(kept).fetchone() == (1000,))
    client.connection.execute(END)
    slow[0].set()
    eventually(lambda: len(handled) > 1300)  # in the next session, with the slow one at hand again
    slow[1].set()
    queue.wait_until_finished()
    running.stop()
    assert len(set(handled)) == 2000


def test_the_end_of_a_part_follows_the_lowest_unfinished_event():
    finished = OutOfOrderEnd()
    for event_id in (1, 2, 2, 3, 5, 8):
        finished.add(event_id)
    assert finished.end() == (None, [])
    for event_id in (2, 5, 8):
        finished.finish(event_id)
    assert finished.end() == (None, [5, 8])  # one copy of 2 is left
    finished.finish(1)
    assert finished.end() == (1, [5, 8])
    finished.finish(2)
    assert finished.end() == (2, [5, 8])
    finished.finish(3)
    assert finished.end() == (8, [])
    assert finished.span == 0
