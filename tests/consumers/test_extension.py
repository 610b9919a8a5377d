"""Consumers on the extension pgq: no notifications, no dead events, one SQLSTATE."""

from __future__ import annotations

import pytest

from pgqpy.consumers import Consumer
from pgqpy.errors import ConsumerRunning, QueueNotFound
from tests.consumers.harness import CONSUMER, QUEUE, Queue, private, short_grace
from tests.support.waiting import eventually


@pytest.fixture
def dsn(extension_dsn):
    """A database with the extension."""
    return extension_dsn


@pytest.fixture
def queue(client):
    """A queue with a consumer registered."""
    return Queue(client)


def test_an_unknown_queue_is_told_by_its_own_class(client, make):
    with pytest.raises(QueueNotFound) as caught:
        make.start(lambda event: None, wait=False).join()
    assert caught.value.queue == QUEUE


def test_failing_events_are_retried_for_ever(queue, make):
    seen = []

    def handler(event):
        seen.append((event.data, event.retry))
        if event.data != "b":
            raise ValueError("no")

    make.start(handler, max_retries=0, backoff=(0, 3600.0))
    queue.deliver("a", "b", "c")
    for _ in range(2):
        assert queue.retry_now() == 2
        queue.wait_until_finished()
    assert seen[-2:] == [("a", 2), ("c", 2)]


class Hopeless(Consumer):
    """Gives every event up."""

    queue, name = QUEUE, CONSUMER
    backoff = (0.01, 1.0)

    def process_batch(self, batch):
        for event in batch:
            batch.dead(event, "hopeless")


def test_an_event_that_is_given_up_fails_its_batch(queue, make_sync, dsn, log):
    make_sync.run(Hopeless(dsn))
    queue.insert("a")
    eventually(lambda: "the extension pgq has no dead events" in log.text)
    assert queue.open_batch() is not None


@pytest.mark.parametrize("bad", [False, True])
def test_effects_happen_once_in_the_transaction(queue, client, make, bad):
    client.connection.execute("create table effect (data text)")

    def handler(event):
        yield "insert into effect values (%s)", [event.data]
        if bad and event.data == "b":
            raise ValueError("no")

    make.start(handler, transactional=True)
    queue.deliver("a", "b", "c")
    rows = client.connection.execute("select data from effect").fetchall()
    assert [row[0] for row in rows] == (["a", "c"] if bad else ["a", "b", "c"])


def test_a_batch_larger_than_part_size_is_read_through_a_cursor(queue, make):
    seen = []
    make.start(lambda event: seen.append(event.data), part_size=7)
    queue.deliver(*map(str, range(50)))
    assert seen == list(map(str, range(50)))


@pytest.mark.parametrize("fails", [False, True])
def test_a_batch_taken_over_is_left_alone(queue, client, make, caplog, fails):
    def handler(event):
        if event.data == "a":
            tick = client.get_queue_info(QUEUE)[0].last_tick_id
            client.register_consumer_at(QUEUE, CONSUMER, tick)
            if fails:
                raise ValueError("and it fails too")

    make.start(handler)
    queue.insert("a")
    eventually(lambda: "not ours any more" in caplog.text)
    queue.deliver("b")
    assert queue.retry_delays() == []


def test_a_second_run_is_refused(queue, client, make):
    running = make.start(lambda event: None)
    eventually(lambda: private(running.consumer, "worked"))
    with short_grace(), pytest.raises(ConsumerRunning):
        make.start(lambda event: None, wait=False).join()
