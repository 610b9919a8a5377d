"""Consumers that take only some events, as their settings say."""

from __future__ import annotations

import pytest

from pgqpy import calls
from pgqpy.errors import ConsumerRunning, InvalidArgument
from tests.consumers.harness import CONSUMER, QUEUE, private
from tests.support.waiting import eventually

OTHER = "takes other events than before"


def insert(queue, *types):
    """Insert events whose data is their type, and their extra1 what follows a slash; tick."""
    for kind in types:
        name, _, extra = kind.partition("/")
        queue.client.insert_event(queue.name, name, kind, extra1=extra or None)
    queue.tick()


def start(make, **settings):
    """Run a consumer that does nothing, until it has begun to take batches."""
    running = make.start(lambda event: None, **settings)
    eventually(lambda: private(running.consumer, "worked"))
    return running


def test_consumer_gets_the_events_of_its_settings(queue, make, log):
    seen = []
    settings = {"filter": {"type": ("order.*", "paid"), "extra1": ["eu"]}}
    running = make.start(lambda event: seen.append(event.data), **settings)
    eventually(lambda: private(running.consumer, "worked"))
    insert(queue, "other", "order.a/us")
    insert(queue, "order.a/eu", "paid/eu", "paid", "order", "other/eu")
    eventually(lambda: seen == ["order.a/eu", "paid/eu"])
    queue.wait_until_finished()
    assert log.text.count(OTHER) == 1
    assert "types order.*, paid; extra1 eu" in log.text


def test_consumer_without_the_settings_takes_what_is_registered(queue, make, client, log):
    seen = []
    client.set_consumer_filter(QUEUE, CONSUMER, types=["a"])
    make.start(lambda event: seen.append(event.data))
    insert(queue, "b", "a")
    eventually(lambda: seen == ["a"])
    assert OTHER not in log.text


def test_settings_are_registered_when_they_differ(queue, make, client, log):
    start(make, filter={"type": ["b", "a"]}).stop()
    log.clear()
    start(make, filter={"type": ["a", "b"]}).stop()
    assert OTHER not in log.text
    start(make, filter={"type": ["*"]}).stop()
    assert OTHER in log.text
    assert client.call(calls.admin.get_registrations(QUEUE, CONSUMER))[0].filter is None


def test_running_consumer_keeps_its_filter(queue, make, client):
    start(make, filter={"type": ["a"]})
    with pytest.raises(ConsumerRunning, match="another filter"):
        client.set_consumer_filter(QUEUE, CONSUMER, types=["b"])
    assert client.set_consumer_filter(QUEUE, CONSUMER, types=["a"]) == 0


@pytest.mark.parametrize(
    "wanted",
    [
        *({"type": texts} for texts in ("order.*", [], [1], {"a"}, ["a\0"], b"a", 5)),
        *(["a"], {"extra5": ["a"]}, {"types": ["a"]}, {"extra1": "a"}, {"extra1": []}, 5),
    ],
)
def test_a_filter_has_lists_of_texts(make, wanted):
    with pytest.raises(ValueError, match=r"filter is None or lists such as"):
        make.consumer(lambda event: None, filter=wanted)


def test_what_only_the_server_refuses_ends_the_run(queue, make):
    with pytest.raises(InvalidArgument, match="may only end a type"):
        make.start(lambda event: None, filter={"type": ["a*b"]}).join()
