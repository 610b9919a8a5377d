"""The pace of a worker: the time of its handlers, without that of taking, reading and finishing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pgqpy.consumers import Consumer, parts
from tests.consumers.harness import END, private
from tests.support.waiting import eventually

SETTINGS = [{}, {"concurrency": 2}, {"transactional": True}]


class Clock:
    """A clock that stands still but for what a test adds."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(parts, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def loop_of(running):
    """The loop of a session, as soon as there is one."""
    return eventually(lambda: private(running.consumer, "loop"))


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_worker_whose_round_trips_are_slow_wants_ranges_uncut(queue, make, clock, settings):
    def handler(event):
        return ()

    running = make.start(handler, shared=True, **settings)
    loop = loop_of(running)
    send = loop.send

    def slow(*calls):
        clock.now += 1
        return send(*calls)

    loop.send = slow
    queue.insert("a")
    eventually(lambda: loop.pace.wanted is None)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_worker_wants_half_a_second_of_its_handlers_work(queue, make, clock, settings):
    def handler(event):
        clock.now += 0.125
        return ()

    running = make.start(handler, shared=True, **settings)
    queue.insert("a", "b")
    loop = loop_of(running)
    eventually(lambda: loop.pace.wanted == 4)


def test_a_worker_keeps_its_pace_when_its_session_is_lost(queue, make, clock, connect):
    def handler(event):
        clock.now += 0.125

    running = make.start(handler, shared=True)
    queue.insert("a", "b")
    loop = loop_of(running)
    eventually(lambda: loop.pace.wanted == 4)
    connect().execute(END)
    eventually(lambda: loop_of(running) is not loop)
    assert loop_of(running).pace.wanted == 4


def test_a_worker_begins_with_an_event_for_each_handler_and_batches_begin_large():
    class Batches(Consumer):
        queue, name = "q", "c"

        def process_batch(self, batch):
            """Do nothing."""

    class Events(Consumer):
        queue, name = "q", "c"

        def process_event(self, event):
            """Do nothing."""

    consumers = Events(), Events(concurrency=3), Batches(part_size=500)
    assert [parts.Pace(consumer).wanted for consumer in consumers] == [1, 3, 500]
