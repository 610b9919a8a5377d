"""A consumer that runs goes on at the place of a seek, without a restart."""

from __future__ import annotations

import threading

import pytest

import pgqpy
from tests.consumers.harness import CONSUMER, QUEUE, STATEMENTS
from tests.support.waiting import eventually

KINDS = {
    "plain": {},
    "parts": {"part_size": 1},
    "transactional": {"transactional": True},
}


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS.keys())
def test_run_goes_on_at_the_place(queue, make, settings):
    seen, at_work, may_end = [], threading.Event(), threading.Event()

    def handler(event):
        seen.append(event.data)
        if seen == ["a", "b"]:
            at_work.set()
            assert may_end.wait(30)
        return STATEMENTS

    def seek():
        with pgqpy.connect(make.dsn) as other:
            other.seek_consumer(QUEUE, CONSUMER, "beginning")

    for data in "abc":
        queue.insert(data)
    running = make.start(handler, **settings)
    assert at_work.wait(30)
    seeker = threading.Thread(target=seek)
    seeker.start()
    if not settings.get("transactional"):  # else it waits for the transaction
        seeker.join(30)
        assert not seeker.is_alive()
    may_end.set()
    seeker.join(30)
    for times in (2, 3):
        eventually(lambda: seen.count("a") == times and seen[-3:] == ["a", "b", "c"])  # noqa: B023  # it is called here
        queue.wait_until_finished()
        if times == 2:
            seek()
    running.stop()
