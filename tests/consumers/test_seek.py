"""A consumer that runs goes on at the place of a seek, without a restart."""

from __future__ import annotations

import threading

import pytest

import pgqpy
from tests.consumers.harness import CONSUMER, QUEUE
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


def shaped(handler, settings):
    """Let the handler of a transactional consumer be a generator."""

    def in_transaction(event):
        handler(event)
        yield "select 1", None

    return in_transaction if settings.get("transactional") else handler


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS.keys())
def test_run_goes_on_at_the_place(queue, make, settings):
    seen, at_work, may_end = [], threading.Event(), threading.Event()

    def handler(event):
        seen.append(event.data)
        if seen == ["a", "b"]:
            at_work.set()
            assert may_end.wait(30)

    def seek():
        with pgqpy.connect(make.dsn) as other:
            other.seek_consumer(QUEUE, CONSUMER, "beginning")

    for data in "abc":
        queue.insert(data)
    running = make.start(shaped(handler, settings), **settings)
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


def test_events_are_the_same_and_their_retries_do_not_come_too(queue, client, make):
    seen, broken = [], True

    def handler(event):
        seen.append((event.id, event.data))
        if broken:
            raise ValueError("a bug")

    first = queue.insert("a", "b")
    running = make.start(handler, backoff=(60, 60))
    eventually(lambda: len(queue.retry_delays()) == 2)
    broken = False
    assert client.seek_consumer(QUEUE, CONSUMER, "beginning").dropped == 2
    eventually(lambda: len(seen) == 4)
    assert seen[2:] == list(zip(first, "ab", strict=True)) == seen[:2]
    assert queue.retry_now() == 0
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

    park = {"on_error": "park", "key": "extra1", "backoff": (3600.0, 3600.0)}
    running = make.start(shaped(handler, settings), **park, **settings)
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
