"""Handlers that read their batch more than once, or leave it early."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from pgqpy.consumers import AsyncConsumer, Consumer
from tests.consumers.harness import CONSUMER, QUEUE, in_transactions
from tests.support.waiting import eventually

TAKEN = ["a", "b", "c"]


class Reading(Consumer):
    """Takes the numbers of events in `passes`, one pass after the other; None is all of them."""

    queue, name, on_error = QUEUE, CONSUMER, "stop"
    passes: tuple[int | None, ...] = ()
    stops = False  # in the last pass

    def process_batch(self, batch, *_connection):
        for number, wanted in enumerate(self.passes, 1):
            self.taken = [event.data for event in itertools.islice(batch, wanted)]
            if self.stops and number == len(self.passes):
                self.stop()


@pytest.fixture
def read(queue, make_sync, dsn):
    """Start a consumer that reads the batch of three events in these passes."""
    queue.insert(*TAKEN)

    def start(*passes, stops=False, **settings):
        consumer = in_transactions(Reading, settings.pop("transactional", False))(dsn, **settings)
        consumer.passes, consumer.stops = passes, stops
        return make_sync.run(consumer)

    return start


@pytest.mark.parametrize(
    ("passes", "settings"),
    [
        ((0,), {}),  # an iterator that nobody reads
        ((1,), {}),
        ((1,), {"part_size": 1}),
        ((None, 1), {}),
        ((None, 0), {"transactional": True}),
        ((None, None, 2), {}),
    ],
)
def test_a_last_pass_that_ends_early_leaves_the_batch_unfinished(queue, read, passes, settings):
    with pytest.raises(RuntimeError, match=r"the whole batch.* the pass begun last"):
        read(*passes, **settings).join()
    assert queue.open_batch() is not None


def test_a_last_pass_that_ends_early_at_stop_leaves_the_batch_unfinished(queue, read):
    running = read(None, 1, stops=True)
    running.join()
    assert running.consumer.taken == TAKEN[:1]
    assert queue.pending() > 0


@pytest.mark.parametrize("passes", [(1, None), (0, 2, None), (None, None)])
def test_a_last_pass_that_comes_to_its_end_finishes_the_batch(queue, read, passes):
    running = read(*passes)
    queue.wait_until_finished()
    assert running.consumer.taken == TAKEN


def test_a_batch_whose_events_nobody_wants_is_finished(queue, read):
    running = read()
    eventually(lambda: running.consumer.counts().batches > 0)
    queue.wait_until_finished()


class Nested(Consumer):
    """Reads its batch once for each event of it."""

    queue, name, on_error = QUEUE, CONSUMER, "stop"

    def process_batch(self, batch):
        self.pairs = [(one.data, other.data) for one in batch for other in batch]


class SideBySide(AsyncConsumer):
    """Two tasks read its batch; the one that begins first ends last."""

    queue, name, on_error = QUEUE, CONSUMER, "stop"

    async def process_batch(self, batch):
        begun, ended = asyncio.Event(), asyncio.Event()

        async def first():
            async for _event in batch:
                begun.set()
                await ended.wait()

        async def second():
            await begun.wait()
            async for _event in batch:
                pass
            ended.set()

        await asyncio.gather(first(), second())


def test_an_earlier_pass_may_end_after_the_last_one(queue, make, dsn):
    queue.insert(*TAKEN)
    running = make.run((SideBySide if make.asynchronous else Nested)(dsn))
    queue.wait_until_finished()
    if not make.asynchronous:
        assert running.consumer.pairs == [(one, other) for one in TAKEN for other in TAKEN]
