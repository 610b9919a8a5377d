"""Events that kill their handler: what a consumer does after the run before it has died."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pgqpy.consumers import Consumer
from pgqpy.consumers.crash import new_holder
from tests.consumers.harness import CONSUMER, END, QUEUE, STATEMENTS, Running, in_transactions
from tests.support.waiting import eventually

KILLERS = str(Path(__file__).with_name("killers.py"))
FINISHED = "select pos_from from pgq.current_position"
ATTEMPT = "select pos_holder, pos_part, pos_tries from pgq.current_position"
OTHERS = [f"good {number}" for number in range(6)]
SHAPES = [
    {},
    {"concurrency": 4},
    {"transactional": True},
]


@pytest.fixture
def attempt(client):
    """Read the holder, the part size and the tries of the consumer."""
    return lambda: client.connection.execute(ATTEMPT).fetchone()


@pytest.fixture
def die(queue, client):
    """Let runs die, one after the other, with a batch open."""

    def run_and_die(times):
        assert client.next_batch(QUEUE, CONSUMER) is not None
        for number in range(times):
            begin = "select pgq.begin_run(%s, %s, %s)"
            client.connection.execute(begin, (QUEUE, CONSUMER, f"host:1:{number}"))

    return run_and_die


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ("plain", ["sys.exit", "hang", "regex"]),
        ("asyncio", ["hang"]),
        ("transactional", ["memory"]),
        ("transactional batches", ["sys.exit", "hang"]),
        ("transactional worker", []),
    ],
)
def test_an_event_that_kills_is_dead_at_last_and_all_others_are_handled(
    queue, client, spawn, dsn, effects, shape, more
):
    killers = ["sigkill", "os._exit", "segfault", *more]
    mixed = [data for pair in zip(OTHERS, killers, strict=False) for data in pair]
    queue.insert(*mixed, *OTHERS[len(killers) :], "end")
    process = spawn(KILLERS, dsn, shape)
    assert process.wait(120) == 0
    output = process.output()
    (ends,) = (line.split()[1:] for line in output.splitlines() if line.startswith("ends: "))
    dead = {event.ev_data: event for event in client.get_dead_events(QUEUE, CONSUMER)}
    assert dead.keys() == set(killers)
    if "memory" in dead:
        assert dead.pop("memory").dead_error == "MemoryError"  # an exception like any other
    assert all(event.dead_error.endswith(".ProcessDied") for event in dead.values())
    reasons = {re.sub(r"\d+", "N", event.dead_reason) for event in dead.values()}
    only = "the process died N times while it handled only this event"
    assert reasons == {only}
    handled = Counter(effects())
    assert handled.keys() == {*OTHERS, "end"}
    if "transactional" in shape:
        assert handled.most_common(1)[0][1] == 1
    # Four ends for the first killer; the others come before the parts are wide again.
    assert len(ends) <= 4 + (len(dead) - 1) + 1
    assert {"-9", "3", "-11", "0"} <= set(ends) <= {"-9", "3", "-11", "0", "4", "1"}
    if "hang" in dead:
        what = r"batch \d+" if "batches" in shape else f"event {dead['hang'].ev_id}"
        assert re.search(f"the handler of {what} has run for", output)


def noting(seen):
    """Return a handler that notes the events."""
    return lambda event: seen.append(event.data) or STATEMENTS


@pytest.mark.parametrize("settings", SHAPES)
def test_the_first_event_is_dead_after_five_crashes(queue, client, make, die, log, settings):
    seen: list[Any] = []
    queue.insert("killer", *OTHERS)
    die(5)
    make.start(noting(seen), **settings)
    queue.wait_until_finished()
    assert seen == OTHERS
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert dead.ev_data == "killer"
    assert "died 2 times while it handled only this event" in dead.dead_reason
    assert dead.dead_tries == 2
    assert f"event {dead.ev_id} (type 'test', retry 0) of queue orders" in log.text


def test_before_that_it_is_handled_once_more(queue, make, die, attempt):
    seen: list[Any] = []
    queue.insert("suspect", *OTHERS)
    die(4)
    make.start(noting(seen))
    queue.wait_until_finished()
    assert seen == ["suspect", *OTHERS]
    assert attempt()[1:] == (1, None)


def test_parts_are_kept_while_careful_and_widen_when_all_is_quiet(
    queue, client, make, die, attempt, log
):
    seen: list[Any] = []
    kept: list[int] = []
    note = noting(seen)

    def handler(event):
        if event.data in ("0000000002", "0000000065", "0000001098"):
            kept.append(client.connection.execute(FINISHED).fetchone()[0])
        return note(event)

    queue.fill(1100)
    die(3)
    make.start(handler, transactional=not make.asynchronous)
    queue.wait_until_finished()
    assert len(seen) == 1100
    # 34 parts of one event, 34 of 30, and the next one is of 1,000.
    assert [event_id - kept[0] for event_id in kept] == [0, 33 + 30 - 1, 33 + 34 * 30 - 1]
    assert attempt()[1] == 1000
    for number in range(34):
        queue.deliver(str(number))
    eventually(lambda: attempt()[1] is None)
    for size in ("parts of 30", "parts of 1000", "parts of 10000"):
        assert f"events are handled in {size}" in log.text
    queue.deliver("as usual")


def test_an_event_and_its_copy_are_dead_together(queue, client, make, die):
    seen: list[Any] = []
    (first, *_) = queue.insert("killer", "b")
    batch = client.next_batch(QUEUE, CONSUMER)
    client.event_retry(batch, first, 0)
    client.register_consumer_at(QUEUE, CONSUMER, batch.prev_tick_id)
    assert queue.retry_now() == 1
    client.next_batch(QUEUE, CONSUMER, min_count=3, min_interval=60)
    die(5)
    make.start(noting(seen))
    queue.wait_until_finished()
    assert seen == ["b"]
    assert [event.ev_id for event in client.get_dead_events(QUEUE, CONSUMER)] == [first]


@pytest.mark.parametrize("transactional", [False, True])
def test_process_batch_with_parts_is_narrowed_too(queue, client, dsn, die, transactional):
    seen: list[Any] = []

    class Batches(Consumer):
        queue, name, part_size = QUEUE, CONSUMER, 2

        def process_batch(self, batch, *_connection):
            seen.append([event.data for event in batch])

    queue.insert("killer", "b", "c")
    die(5)
    running = Running(in_transactions(Batches, transactional)(dsn))
    queue.wait_until_finished()
    running.stop()
    assert seen == [["b"], ["c"]]
    assert [event.ev_data for event in client.get_dead_events(QUEUE, CONSUMER)] == ["killer"]


def test_where_order_counts_no_event_is_given_up(queue, client, make, die, log):
    seen: list[Any] = []
    queue.insert("suspect", "b")
    die(6)
    make.start(noting(seen), on_error="stop", backoff=(0.01, 3600.0))
    queue.wait_until_finished()
    assert seen == ["suspect", "b"]
    assert 'which on_error = "stop" does not give up' in log.text
    assert client.get_dead_events(QUEUE, CONSUMER) == []


@pytest.mark.parametrize("how", ["stop", "error"])
def test_a_run_that_ends_in_order_releases_its_token(queue, make, attempt, how):
    holders = []

    def handler(_event):
        holders.append(attempt()[0])
        if how == "error":
            raise ValueError("not now")
        running.consumer.stop()

    running = make.start(handler, on_error="stop")
    queue.insert("a", "b")
    try:
        running.join()
    except ValueError:
        assert how == "error"
    assert queue.open_batch() is not None
    assert re.fullmatch(r"[\w.-]+:\d+:[\w.]+\.[0-9a-f]{16}", holders[0])
    assert attempt() == (None, None, None)


def test_a_lost_connection_is_no_crash(queue, client, make, attempt):
    seen: list[Any] = []

    def handler(event):
        seen.append(event.data)
        if len(seen) == 1:
            client.connection.execute(END)

    queue.insert("a")
    running = make.start(handler)
    queue.wait_until_finished()
    assert seen == ["a", "a"]
    assert attempt()[1:] == (None, None)
    running.stop()


def test_no_two_runs_have_the_same_token(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "h\u00f6st\n" * 99)
    tokens = {new_holder() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) < 255 and token.isprintable() and token.isascii() for token in tokens)
