"""The queue and name of a consumer: set late, and fixed while it runs."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pgqpy.consumers import Consumer
from pgqpy.consumers.settings import REFUSED_WHILE_RUNNING
from tests.consumers.harness import CONSUMER, END, QUEUE, STATEMENTS, Queue, private
from tests.support.waiting import eventually

KINDS = [{}, {"transactional": True}]


@pytest.mark.parametrize("settings", KINDS)
def test_the_lock_is_that_of_the_name_that_was_set_last(queue, client, make, dsn, settings):
    Queue(client, "other")
    seen: list[Any] = []

    def note(event):
        seen.append(event.data)
        return STATEMENTS

    consumer = make.consumer(note, queue="other", **settings)
    consumer.queue, consumer.name = QUEUE, "renamed"
    running = make.run(consumer)
    eventually(lambda: private(consumer, "worked"))
    lock = private(consumer, "state").lock
    assert (lock.queue, lock.name) == (QUEUE, "renamed")
    queue.insert("a")
    eventually(lambda: seen == ["a"])
    assert running.consumer.name == "renamed"


def test_settings_that_a_run_depends_on_are_fixed_while_it_lasts(queue, make):
    consumer = make.consumer(lambda event: None)
    before = {setting: getattr(consumer, setting) for setting in REFUSED_WHILE_RUNNING}
    running = make.run(consumer)
    eventually(lambda: private(consumer, "worked"))
    for setting in REFUSED_WHILE_RUNNING:
        with pytest.raises(AttributeError, match=f"{setting} cannot be set while the consumer"):
            setattr(consumer, setting, "another")
    consumer.part_size = 7
    running.stop()
    assert {setting: getattr(consumer, setting) for setting in REFUSED_WHILE_RUNNING} == before
    assert consumer.part_size == 7
    consumer.name = "another"


FILTER = "select sub_filter from pgq.registration where sub_filter is not null"


def test_a_filter_that_is_changed_while_it_runs_counts_from_the_next_run_on(
    queue, client, make, log
):
    """Also where the session is lost: what a filter passes over never comes again."""
    consumer = make.consumer(lambda event: None, filter={"type": ["test"], "extra1": ["eu"]})
    running = make.run(consumer)
    eventually(lambda: private(consumer, "worked"))
    type(consumer).filter["type"].append("other")
    type(consumer).filter["extra1"].append("us")
    client.connection.execute(END)
    eventually(lambda: "runs again" in log.text)
    assert client.connection.execute(FILTER).fetchall() == [
        ({"types": ["test"], "extra1": ["eu"]},)
    ]
    with pytest.raises(AttributeError):
        consumer.filter["type"].append("other")
    running.stop()
    assert consumer.filter["type"] == ["test", "other"]


def test_settings_of_the_class_count_from_the_next_run_on(queue, make, client):
    """As where two objects of a class get their names by it."""
    seen = []
    consumer: Any = make.consumer(lambda event: seen.append((consumer.name, event.data)))
    running = make.run(consumer)
    eventually(lambda: private(consumer, "worked"))
    type(consumer).name, type(consumer).max_retries = "second", 0
    queue.deliver("a")
    assert (consumer.name, consumer.max_retries) == (CONSUMER, 20)
    running.stop()
    client.register_consumer(QUEUE, "second")
    queue.insert("b")
    make.run(consumer)
    eventually(lambda: seen == [(CONSUMER, "a"), ("second", "b")])


class Sent(Consumer):
    """A consumer that another process gets, as multiprocessing sends it."""

    queue, name = QUEUE, CONSUMER

    def process_event(self, event):
        self.seen = event.data


def test_a_consumer_that_was_pickled_runs(queue, make_sync, dsn):
    sent = Sent(dsn, filter={"type": ["test"], "extra1": ["eu"]})
    consumer = pickle.loads(pickle.dumps(sent))
    queue.client.insert_event(QUEUE, "test", "a", extra1="eu")
    queue.tick()
    make_sync.run(consumer)
    eventually(lambda: getattr(consumer, "seen", None) == "a")
