"""The queue and name of a consumer: set late, and fixed while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy.consumers.settings import FIXED
from pgqpy.errors import ConsumerRunning
from tests.consumers.harness import CONSUMER, QUEUE, Queue, private, short_grace
from tests.support.waiting import eventually

KINDS = [{}, {"shared": True}, {"shared": True, "lease": 60}, {"lanes": 2, "key": "extra1"}]


@pytest.mark.parametrize("settings", KINDS)
def test_the_lock_is_that_of_the_name_that_was_set_last(queue, client, make, dsn, settings):
    Queue(client, "other")
    seen = []
    consumer = make.consumer(lambda event: seen.append(event.data), queue="other", **settings)
    consumer.queue, consumer.name = QUEUE, "renamed"
    running = make.run(consumer)
    eventually(lambda: private(consumer, "worked"))
    lock = private(consumer, "lock")
    assert (lock.queue, lock.name) == (QUEUE, "renamed")
    queue.insert("a")
    eventually(lambda: seen == ["a"])
    assert running.consumer.name == "renamed"


def test_a_second_process_of_a_name_that_was_set_late_is_refused(queue, make):
    first = make.consumer(lambda event: None)
    first.name = "renamed"
    make.run(first)
    eventually(lambda: private(first, "worked"))
    with short_grace(), pytest.raises(ConsumerRunning):
        make.start(lambda event: None, name="renamed").join()


def test_settings_that_a_run_depends_on_are_fixed_while_it_lasts(queue, make):
    consumer = make.consumer(lambda event: None)
    before = {setting: getattr(consumer, setting) for setting in FIXED}
    running = make.run(consumer)
    eventually(lambda: private(consumer, "worked"))
    for setting in FIXED:
        with pytest.raises(AttributeError, match=f"{setting} cannot be set while the consumer"):
            setattr(consumer, setting, "another")
    consumer.fetch_size = 7
    running.stop()
    assert {setting: getattr(consumer, setting) for setting in FIXED} == before
    consumer.name = "another"


def test_settings_of_the_class_count_from_the_next_run_on(queue, make, client):
    """As where two objects of a class get their names by it."""
    seen = []
    consumer: Any = make.consumer(lambda event: seen.append((consumer.name, event.data)))
    running = make.run(consumer)
    eventually(lambda: private(consumer, "worked"))
    type(consumer).name = "second"
    queue.insert("a")
    queue.wait_until_finished()
    running.stop()
    client.register_consumer(QUEUE, "second")
    queue.insert("b")
    make.run(consumer)
    eventually(lambda: seen == [(CONSUMER, "a"), ("second", "b")])


def test_consumers_that_are_equal_run_side_by_side(queue, client, make):
    client.register_consumer(QUEUE, "second")
    seen = []
    kind: Any = type(make.consumer(lambda event: seen.append(event.data)))
    kind.__eq__, kind.__hash__ = lambda *_: True, None
    for name in (CONSUMER, "second"):
        make.run(kind(make.dsn, name=name))
    queue.insert("a")
    eventually(lambda: seen == ["a", "a"])


def test_a_consumer_that_was_renamed_runs_again(queue, make, client):
    seen = []
    consumer: Any = make.consumer(lambda event: seen.append((consumer.name, event.data)))
    client.register_consumer(QUEUE, "second")
    queue.insert("a")
    for name in (CONSUMER, "second", CONSUMER):
        consumer.name = name
        running = make.run(consumer)
        queue.insert(name)
        eventually(lambda: (consumer.name, consumer.name) in seen)
        running.stop()
