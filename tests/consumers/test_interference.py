"""What others do to a consumer's batch, registration and queue while it runs."""

from __future__ import annotations

import pytest

from pgqpy.errors import ConsumerNotFound, QueueNotFound
from tests.consumers.harness import CONSUMER, QUEUE, STATEMENTS, private
from tests.support.waiting import eventually


def test_a_consumer_that_loses_many_batches_goes_on(queue, client, make, caplog):
    """A statement that the server skipped behind a failed one is not prepared."""
    lost: list[str] = []

    def handler(event):
        if len(lost) < 12:
            tick = client.get_consumer_info(QUEUE, CONSUMER)[0].last_tick
            client.register_consumer_at(QUEUE, CONSUMER, tick)
            lost.append(event.data)
            raise ValueError("and it fails too")

    running = make.start(handler)
    queue.deliver("a")
    running.stop()
    assert len(lost) == 12
    assert queue.retry_delays() == []


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("gone", ["consumer", "queue"])
def test_a_consumer_or_queue_that_is_removed_under_a_run_ends_it(
    queue, client, make, gone, transactional
):
    running = make.start(lambda event: STATEMENTS, transactional=transactional)
    eventually(lambda: private(running.consumer, "worked"))
    if gone == "queue":
        client.drop_queue(QUEUE, force=True)
    else:
        client.unregister_consumer(QUEUE, CONSUMER)
    expected = (QueueNotFound, ConsumerNotFound) if gone == "queue" else ConsumerNotFound
    with pytest.raises(expected) as caught:
        running.join()
    if gone == "consumer":
        assert (caught.value.queue, caught.value.consumer) == (QUEUE, CONSUMER)
