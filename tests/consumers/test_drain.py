"""`drain()`: a run that ends when nothing is due."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from pgqpy.consumers import Retry
from pgqpy.errors import ConsumerRunning
from tests.consumers.harness import CONSUMER, QUEUE
from tests.support.waiting import eventually


def drain(consumer, **options):
    found = consumer.drain(**options)
    return asyncio.run(found) if asyncio.iscoroutine(found) else found


@pytest.fixture(params=["plain", "shared"])
def settings(request):
    """Settings of a consumer of either kind."""
    return {"shared": True, "name": "sharing"} if request.param == "shared" else {}


@pytest.fixture
def insert(queue):
    """Insert events, without a tick."""

    def insert(*datas, **options):
        for data in datas:
            queue.client.insert_event(QUEUE, "t", data, **options)

    return insert


def test_what_is_due_is_handled_and_counted(queue, make, insert, settings):
    def handle(event):
        if event.data == "again":
            raise OSError("no route")
        if event.data == "dead":
            raise ValueError("no address")

    consumer = make.consumer(handle, give_up=(ValueError,), **settings)
    assert drain(consumer) == (0, 0, 0)  # it is registered
    insert("a", "again", "dead", "b")
    assert drain(consumer) == (2, 1, 1)
    assert drain(consumer) == (0, 0, 0)


def test_what_handlers_insert_is_handled_too(queue, make, insert, settings):
    def handle(event):
        if len(event.data) < 3:
            insert(event.data + "x")

    consumer = make.consumer(handle, **settings)
    drain(consumer)
    insert("a")
    assert drain(consumer).handled == 3


def test_delayed_events_that_are_due_are_handled(queue, make, insert, settings):
    consumer = make.consumer(print, **settings)
    drain(consumer)
    insert("later", delay=timedelta(hours=1))
    insert("due", delay=timedelta(hours=1))
    queue.client.connection.execute(
        "update pgq.delayed_event set ev_deliver_at = now() where ev_data = 'due'"
    )
    assert drain(consumer).handled == 1


def test_retries_are_waited_for_if_that_is_wanted(queue, make, insert, settings):
    seen = []

    def handle(event):
        seen.append(event.data)
        if len(seen) < 3:
            raise Retry(after=0.2)

    consumer = make.consumer(handle, **settings)
    drain(consumer)
    insert("a")
    assert drain(consumer) == (0, 1, 0)
    assert drain(consumer, retries=True) == (1, 1, 0)


def test_error_of_a_handler_is_raised_if_that_is_wanted(queue, make, insert, settings):
    def fail(_event):
        raise ValueError("no address")

    consumer = make.consumer(fail, **settings)
    drain(consumer)
    insert("a")
    with pytest.raises(ValueError, match="no address"):
        drain(consumer, raise_errors=True)
    assert consumer.on_error == "retry"
    assert drain(consumer) == (0, 1, 0)


def test_there_is_more_to_do_after_the_timeout(queue, make, insert, settings):
    def fail(_event):
        raise Retry(after=3600)

    consumer = make.consumer(fail, **settings)
    drain(consumer)
    insert("a")
    with pytest.raises(TimeoutError, match=r"had more to do after 0.5 s: Drained"):
        drain(consumer, timeout=0.5, retries=True)


def test_events_that_a_rate_holds_back_are_waited_for(queue, make, insert):
    consumer = make.consumer(print, name="sharing", rate="5/s")
    drain(consumer)
    insert(*"abcdefgh")
    assert drain(consumer).handled == 8


def test_all_queues_of_a_shared_consumer_are_ticked(queue, make, insert):
    queue.client.create_queue("urgent")
    consumer = make.consumer(print, name="sharing", queue="", queues=("urgent", QUEUE))
    drain(consumer)
    insert("a")
    queue.client.insert_event("urgent", "t", "b")
    assert drain(consumer).handled == 2


def test_plain_consumer_that_runs_elsewhere_is_left_alone(queue, make, insert, no_grace):
    running = make.start(print, name=CONSUMER)
    eventually(lambda: running.consumer.outage() is None)
    with pytest.raises(ConsumerRunning):
        drain(make.consumer(print))
