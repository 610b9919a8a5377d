"""Consumers whose effects are elsewhere: every event is given at least once."""

from __future__ import annotations

from functools import partial

import pytest

from pgqpy import calls
from pgqpy.consumers import Retry
from pgqpy.errors import QueueNotFound
from tests.consumers.harness import CONSUMER, QUEUE, Name
from tests.support.waiting import eventually


def test_events_come_in_order_and_the_batch_is_finished(queue, make):
    seen = []
    make.start(lambda event: seen.append(event.data))
    queue.deliver("a", "b", "c")
    assert seen == ["a", "b", "c"]


def test_run_registers_the_consumer_but_creates_no_queue(client, make):
    with pytest.raises(QueueNotFound) as caught:
        make.start(lambda event: None).join()
    assert caught.value.queue == QUEUE
    client.create_queue(QUEUE)
    make.start(lambda event: None)
    eventually(lambda: client.get_consumer_info(QUEUE, CONSUMER))


def test_a_consumer_by_the_former_name_of_its_queue_is_told_the_new_one(queue, make):
    running = make.start(lambda event: None)
    queue.deliver("a")
    queue.client.call(calls.admin.rename_queue(QUEUE, "purchases"))
    for ends in (running, make.start(lambda event: None)):
        with pytest.raises(QueueNotFound, match="queue orders was renamed to purchases"):
            ends.join()
    queue.name = "purchases"
    seen = []
    make.start(lambda event: seen.append(event.data), queue="purchases")
    queue.deliver("b")
    assert seen == ["b"]


@pytest.mark.parametrize("name", [QUEUE, Name.ORDERS])
def test_a_tick_wakes_a_waiting_consumer_without_polling(queue, make, name, polls):
    polls(3600)
    seen = []
    make.start(lambda event: seen.append(event.data), queue=name)
    for text in ("a", "b", "c"):
        queue.insert(text)
        eventually(partial(seen.__contains__, text))


@pytest.mark.parametrize("on_error", ["retry", "stop"])
def test_retry_asks_for_its_own_delay_and_never_kills_the_event(queue, client, make, on_error):
    seen = []

    def handler(event):
        seen.append(event.retry)
        raise Retry(after=1000, reason="later")

    make.start(handler, max_retries=0, on_error=on_error)
    queue.deliver("a")
    (delay,) = queue.retry_delays()
    assert 900 < delay <= 1000
    queue.retry_now()
    queue.wait_until_finished()
    assert seen == [None, 1]
    assert client.get_dead_events(QUEUE, CONSUMER) == []


@pytest.mark.parametrize("on_error", ["retry", "stop"])
@pytest.mark.parametrize("transactional", [False, True])
def test_an_error_of_give_up_makes_its_event_dead_at_once(
    queue, client, make, transactional, on_error
):
    def handler(event):
        if event.data == "b":
            raise ValueError("never will be")
        return ()

    settings = {"transactional": transactional, "on_error": on_error}
    running = make.start(handler, give_up=(ValueError,), **settings)
    queue.deliver("a", "b", "c")
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert (dead.ev_data, dead.dead_reason) == ("b", "never will be")
    running.stop()


def test_an_event_is_dead_after_max_retries_with_the_reason(queue, client, make):
    seen = []

    def handler(event):
        seen.append(event.retry)
        raise ValueError("bad \0 thing")

    make.start(handler, max_retries=2, backoff=(0, 3600.0))
    (event_id,) = queue.deliver("a")
    while queue.retry_now():
        queue.wait_until_finished()
    assert seen == [None, 1, 2]
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert (dead.ev_id, dead.ev_data) == (event_id, "a")
    assert (dead.dead_error, dead.dead_reason) == ("ValueError", r"bad \x00 thing")
    assert dead.dead_tries == 3
    assert "raise ValueError(" in dead.dead_traceback


def test_a_failing_event_is_told_each_time_and_its_traceback_once(queue, make, log):
    def handler(event):
        raise ValueError("bad thing")

    make.start(handler, max_retries=3, backoff=(0, 3600.0))
    queue.deliver("a")
    while queue.retry_now():
        queue.wait_until_finished()
    assert log.text.count("ValueError: bad thing") == 4
    assert log.text.count("Traceback") == 1


def test_on_error_stop_raises_the_original_and_leaves_the_batch_unfinished(queue, make):
    failure = ValueError("stop here")
    seen = []

    def handler(event):
        seen.append(event.data)
        if event.data == "b":
            raise failure

    queue.insert("a", "b", "c")
    with pytest.raises(ValueError) as caught:
        make.start(handler, on_error="stop").join()
    assert caught.value is failure
    assert queue.open_batch() is not None
    assert seen == ["a", "b"]
    del seen[:]
    make.start(lambda event: seen.append(event.data))
    queue.wait_until_finished()
    assert seen == ["a", "b", "c"]


def test_stop_in_the_last_event_finishes_the_batch(queue, make):
    def handler(event):
        if event.data == "b":
            running.consumer.stop()

    running = make.start(handler)
    queue.insert("a", "b")
    running.join()
    assert (queue.open_batch(), queue.pending()) == (None, 0)


def test_stop_ends_a_long_wait_at_once(queue, make, polls):
    polls(3600)
    running = make.start(lambda event: None)
    queue.deliver("a")
    running.stop()


def test_stop_before_run_and_twice_is_safe_and_run_works_again(queue, make):
    seen = []
    consumer = make.consumer(lambda event: seen.append(event.data))
    consumer.stop()
    consumer.stop()
    make.run(consumer).join()
    queue.insert("a")
    make.run(consumer)
    queue.wait_until_finished()
    assert seen == ["a"]


def test_no_transaction_is_open_while_a_handler_runs(queue, client, make):
    states = []
    query = (
        "select state, backend_xmin from pg_stat_activity where application_name like 'pgqpy cons%'"
    )

    def handler(event):
        states.append(tuple(client.connection.execute(query).fetchone()))

    make.start(handler, part_size=2)
    queue.deliver(*"abcdefg")
    assert set(states) == {("idle", None)}
    assert len(states) == 7


def test_many_failures_are_written_in_parts(queue, client, make):
    def handler(event):
        raise ValueError("all of them")

    make.start(handler, part_size=10, backoff=(1000, 1000))
    queue.fill(55)
    queue.wait_until_finished()
    assert len(queue.retry_delays()) == 55


def test_private_names_of_an_application_do_not_break_the_consumer(queue, make):
    seen = []
    names = "stop lock session running worked lost loop counts outage run begin"
    classes = ("", "_Consumer_", "_AsyncConsumer_")  # Python's names of self.__stop
    mine = {f"{its}_{name}": "mine" for name in names.split() for its in classes}
    make.start(lambda event: seen.append(event.data), **mine)
    queue.deliver("a")
    assert seen == ["a"]
