"""Progress inside a batch: what a consumer with a part size repeats, and what it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from pgqpy.consumers import Consumer, retry
from pgqpy.consumers._sync.handler_connection import HandlerConnection
from tests.consumers.harness import CONSUMER, NOTE, QUEUE, Running
from tests.support.waiting import eventually

TEN = [str(number) for number in range(10)]


class Stumble:
    """A handler that fails once, at one event."""

    def __init__(self, at):
        self.at = at
        self.seen = []

    def __call__(self, event):
        if event.data == self.at:
            self.at = None
            raise ValueError("stumbled")
        self.seen.append(event.data)


def test_finished_parts_are_not_handled_again(queue, make):
    handler = Stumble("8")
    queue.insert(*TEN)
    with pytest.raises(ValueError, match="stumbled"):
        make.start(handler, on_error="stop", part_size=3).join()
    make.start(handler, on_error="stop", part_size=3)
    queue.wait_until_finished()
    assert handler.seen == [*TEN[:8], *TEN[6:]]


def test_stop_keeps_all_that_was_handled(queue, make):
    seen = []

    def handler(event):
        seen.append(event.data)
        if event.data == "4":
            running.consumer.stop()

    running = make.start(handler, part_size=100)
    queue.insert(*TEN)
    running.join()
    make.start(handler, part_size=100)
    queue.wait_until_finished()
    assert seen == TEN


def test_effects_of_a_part_are_committed_with_it(queue, make, effects):
    failing = Stumble("8")

    def handler(event):
        yield NOTE, [event.data]
        failing(event)

    queue.insert(*TEN)
    with pytest.raises(ValueError, match="stumbled"):
        make.start(handler, transactional=True, part_size=3, on_error="stop").join()
    assert effects() == TEN[:6]
    make.start(handler, transactional=True, part_size=3)
    queue.wait_until_finished()
    assert effects() == TEN


def test_a_failing_event_of_a_part_is_set_aside_alone(queue, make, effects):
    def handler(event):
        yield NOTE, [event.data]
        if event.data in "47" and not event.retry:
            raise ValueError("not now")

    queue.insert(*TEN)
    make.start(handler, transactional=True, part_size=3)
    queue.wait_until_finished()
    assert effects() == [data for data in TEN if data not in "47"]
    assert queue.retry_now() == 2
    queue.wait_until_finished()
    assert sorted(effects()) == TEN


def test_process_batch_gets_one_part_after_the_other(queue, dsn):
    handled = []

    class Batches(Consumer):
        queue, name, part_size, backoff = QUEUE, CONSUMER, 4, (0.01, 1.0)

        def process_batch(self, batch):
            handled.append([event.data for event in batch])
            if len(handled) == 2:
                raise ValueError("once more")

    queue.insert(*TEN)
    running = Running(Batches(dsn))
    queue.wait_until_finished()
    running.stop()
    assert handled == [TEN[:4], TEN[4:8], TEN[4:8], TEN[8:]]
    assert (running.consumer.counts().batches, running.consumer.counts().events) == (1, 10)


def test_a_consumer_that_dies_before_any_statement_repeats_no_effect(
    queue, make_sync, effects, monkeypatch
):
    """Dying means here: the connection ends, and nothing more is sent."""
    left: Iterator[int] = iter(())  # how many statements are left, before each
    original = HandlerConnection.wait

    def wait(self, gen, *args, **kwargs):
        if next(left, None) == 0:
            self.pgconn.finish()
            raise SystemExit("dead")
        return original(self, gen, *args, **kwargs)

    monkeypatch.setattr(HandlerConnection, "wait", wait)

    def handler(event):
        yield NOTE, [event.data]

    monkeypatch.setattr(retry, "CRASHES", 99)
    settings = {"transactional": True, "part_size": 2}
    expected = []
    for number in range(6, 36):
        datas = [f"{number:02}.{n}" for n in range(3)]
        queue.insert(*datas)
        expected += datas
        left = iter(range(number, -1, -1))
        with pytest.raises(SystemExit):
            make_sync.start(handler, **settings).join()
        assert Counter(effects()) <= Counter(expected)
    left = iter(())
    last = make_sync.start(handler, **settings)
    queue.wait_until_finished()
    eventually(lambda: sorted(effects()) == expected)
    last.stop()


@pytest.mark.parametrize("part_size", [2, 100])
def test_effects_of_a_part_that_another_session_handled_are_rolled_back(
    queue, client, make, effects, part_size
):
    """Two processes run only where the application gave the running lock away."""
    taken: list[str] = []

    def handler(event):
        if not taken:
            taken.append(event.data)
            client.finish_part(queue.open_batch(), event.id + 1)
        yield NOTE, [event.data]

    queue.insert(*TEN)
    make.start(handler, transactional=True, part_size=part_size)
    queue.wait_until_finished()
    assert effects() == TEN[2:]
