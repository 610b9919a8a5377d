"""A consumer that runs goes on at the place of a seek, without a restart."""

from __future__ import annotations

import threading

import pytest

import pgqpy
from tests.consumers.harness import CONSUMER, QUEUE, STATEMENTS
from tests.consumers.keyed import insert_keyed, parked
from tests.support.waiting import eventually

KINDS = {
    "plain": {},
    "parts": {"part_size": 1},
    "transactional": {"transactional": True},
    "shared": {"shared": True},
    "lanes": {"lanes": 2, "key": "type"},
    "side by side": {"concurrency": 4, "key": "type"},
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


@pytest.mark.parametrize(
    "settings", [{}, {"lanes": 2}, {"concurrency": 4}, {"transactional": True}]
)
@pytest.mark.parametrize("discard", [False, True])
def test_keys_that_were_parked_are_handled_again_in_order(queue, client, make, settings, discard):
    seen, broken = [], True

    def handler(event):
        if broken and event.data == "a-1":
            raise ValueError("a bug")
        seen.append(event.data)
        return STATEMENTS

    park = {"on_error": "park", "key": "extra1", "backoff": (3600.0, 3600.0)}
    running = make.start(handler, **park, **settings)
    insert_keyed(queue, "a-1", "b-1", "a-2")
    insert_keyed(queue, "a-3", "b-2")
    eventually(lambda: parked(queue) == ["a-1", "a-2", "a-3"])
    queue.wait_until_finished()
    broken = False
    client.seek_consumer(QUEUE, CONSUMER, "beginning", discard=discard)
    eventually(lambda: "a-3" in seen)
    queue.wait_until_finished()
    assert [data for data in seen if data[0] == "a"] == ["a-1", "a-2", "a-3"]
    assert parked(queue) == []
    running.stop()
