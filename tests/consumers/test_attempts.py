"""Attempts at an open batch: what a consumer does after the process before it has died."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from pgqpy.consumers import Consumer
from pgqpy.consumers.parts import Attempts
from pgqpy.records import Attempt, Batch, Event
from tests.consumers.harness import CONSUMER, END, NOTE, QUEUE, STATEMENTS, Running, in_transactions
from tests.consumers.test_settings import Whole
from tests.support.waiting import eventually

KILLERS = str(Path(__file__).with_name("killers.py"))
ATTEMPTS = "select pos_attempts from pgq.current_position"
OPEN = "select batch_id from pgq.open_batch(%s, %s)"
OTHERS = [f"good {number}" for number in range(6)]
SHAPES = [{}, {"transactional": True}]


@pytest.fixture
def attempts(client):
    """Read how many processes began to handle what is first."""
    return lambda: client.connection.execute(ATTEMPTS).fetchone()[0]


@pytest.fixture
def die(queue, client):
    """Let processes die, one after the other, with a batch open."""

    def open_and_die(times):
        for _ in range(times):
            (batch,) = client.connection.execute(OPEN, (QUEUE, CONSUMER)).fetchone()
            assert batch is not None

    return open_and_die


@pytest.mark.parametrize("shape", ["plain", "asyncio", "transactional", "transactional batches"])
@pytest.mark.parametrize(("before", "after"), [(0, 9), (7, 2), (3210, 1789)])
def test_a_killer_is_dead_after_five_crashes_and_no_innocent_is(
    queue, client, spawn, dsn, effects, shape, before, after
):
    innocent = [str(number) for number in range(before + after)]
    datas = [*innocent[:before], "sigkill", *innocent[before:], "end"]
    client.insert_events(QUEUE, (("test", data) for data in datas))
    queue.tick()
    process = spawn(KILLERS, dsn, shape, "60")
    assert process.wait(120) == 0
    ends = re.findall(r"ends: (.*)", process.output())
    assert ends == ["-9 -9 -9 -9 -9 0"]
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert dead.ev_data == "sigkill"
    assert dead.dead_error.endswith(".ProcessDied")
    assert dead.dead_reason == "the process died 2 times while it handled only this event"
    assert dead.dead_tries == 2
    handled = Counter(effects())
    assert handled.keys() == {*innocent, "end"}
    if "transactional" in shape:
        assert set(handled.values()) == {1}


@pytest.mark.parametrize(
    ("shape", "killers"),
    [
        ("plain", ["os._exit", "sys.exit", "hang"]),
        ("asyncio", ["segfault", "hang"]),
        ("transactional", ["segfault", "regex", "memory"]),
        ("transactional batches", ["sys.exit", "hang"]),
    ],
)
def test_all_killers_of_a_batch_are_dead_at_last(
    queue, client, spawn, dsn, effects, shape, killers
):
    mixed = [data for pair in zip(OTHERS, killers, strict=False) for data in pair]
    queue.insert(*mixed, *OTHERS[len(killers) :], "end")
    process = spawn(KILLERS, dsn, shape, "1")
    assert process.wait(120) == 0
    output = process.output()
    (ends,) = (line.split()[1:] for line in output.splitlines() if line.startswith("ends: "))
    dead = {event.ev_data: event for event in client.get_dead_events(QUEUE, CONSUMER)}
    assert dead.keys() == set(killers)
    if "memory" in dead:
        assert dead.pop("memory").dead_error == "MemoryError"  # an exception like any other
    assert all(event.dead_error.endswith(".ProcessDied") for event in dead.values())
    handled = Counter(effects())
    assert handled.keys() == {*OTHERS, "end"}
    if "transactional" in shape:
        assert handled.most_common(1)[0][1] == 1
    assert len(ends) <= 5 * len(dead) + 1
    assert set(ends) <= {"-9", "3", "-11", "0", "4", "1"}
    if "hang" in dead:
        what = r"batch \d+" if "batches" in shape else f"event {dead['hang'].ev_id}"
        assert re.search(f"the handler of {what} has run for", output)


def noting(seen):
    """Return a handler that notes the events."""
    return lambda event: seen.append(event.data) or STATEMENTS


@pytest.mark.parametrize("settings", SHAPES)
def test_the_first_event_is_dead_at_the_sixth_attempt(queue, client, make, die, log, settings):
    seen: list[Any] = []
    queue.insert("killer", *OTHERS)
    die(5)
    make.start(noting(seen), **settings)
    queue.wait_until_finished()
    assert seen == OTHERS
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert (dead.ev_data, dead.dead_tries) == ("killer", 2)
    assert "is dead after 5 crashes" in log.text


@pytest.mark.parametrize("settings", SHAPES)
def test_before_that_it_is_handled_once_more(queue, client, make, die, settings):
    seen: list[Any] = []
    queue.insert("suspect", *OTHERS)
    die(4)
    make.start(noting(seen), **settings)
    queue.wait_until_finished()
    assert seen == ["suspect", *OTHERS]
    assert client.get_dead_events(QUEUE, CONSUMER) == []


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
@pytest.mark.parametrize("sets_part_size", [False, True])
def test_process_batch_is_narrowed_where_the_class_sets_part_size(
    queue, client, dsn, die, log, transactional, sets_part_size
):
    seen: list[Any] = []

    class Batches(Consumer):
        queue, name = QUEUE, CONSUMER

        def process_batch(self, batch, *_connection):
            seen.append([event.data for event in batch])

    if sets_part_size:
        Batches.part_size = 10_000
    queue.insert("killer", "b", "c")
    die(5)
    running = Running(in_transactions(Batches, transactional)(dsn))
    queue.wait_until_finished()
    running.stop()
    dead = [event.ev_data for event in client.get_dead_events(QUEUE, CONSUMER)]
    if sets_part_size:
        assert (seen, dead) == ([["b", "c"]], ["killer"])
    else:
        assert (seen, dead) == ([["killer", "b", "c"]], [])
        assert "attempt 6: earlier processes died" in log.text
        assert "with part_size in the class smaller parts would show which" in log.text


def test_where_order_counts_no_event_is_given_up(queue, client, make, die, log):
    seen: list[Any] = []
    queue.insert("suspect", "b")
    die(8)
    make.start(noting(seen), on_error="stop")
    queue.wait_until_finished()
    assert seen == ["suspect", "b"]
    assert 'is not given up with on_error = "stop"' in log.text
    assert client.get_dead_events(QUEUE, CONSUMER) == []


@pytest.mark.parametrize("settings", SHAPES)
@pytest.mark.parametrize("how", ["stop", "error"])
def test_a_clean_end_gives_its_attempt_back(queue, make, attempts, how, settings):
    counts = []

    def handler(_event):
        counts.append(attempts())
        if how == "error":
            raise ValueError("not now")
        running.consumer.stop()
        return STATEMENTS

    queue.insert("a", "b")
    running = make.start(handler, on_error="stop", part_size=1, **settings)
    try:
        running.join()
    except ValueError:
        assert how == "error"
    assert queue.open_batch() is not None
    assert counts == [1]
    assert attempts() == 0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_end_that_an_event_may_have_caused_counts(queue, make, attempts, error):
    def handler(_event):
        raise error

    queue.insert("a")
    running = make.start(handler)
    with pytest.raises(type(error)):
        running.join()
    assert attempts() == 1


@pytest.mark.parametrize("settings", SHAPES)
def test_a_lost_connection_is_no_other_attempt(queue, client, make, attempts, log, settings):
    seen: list[Any] = []
    counts = []

    def handler(event):
        seen.append(event.data)
        counts.append(attempts())
        if len(seen) == 1:
            client.connection.execute(END)
            eventually(lambda: running.consumer.outage() is not None or len(seen) == 1)
        yield from [] if not settings else [(NOTE, ["x"])]

    if settings:
        client.connection.execute("create table effect (data text)")
    queue.insert("a")
    handle = handler if settings else lambda event: list(handler(event))
    running = make.start(handle, **settings)
    queue.wait_until_finished()
    running.stop()
    assert set(counts) == {1}
    assert "earlier processes died" not in log.text


def test_a_batch_that_failed_is_no_other_attempt(queue, make_sync, attempts):
    counts = []

    def fail_twice(_self, batch):
        counts.append(attempts())
        if len(counts) < 3:
            raise ValueError("not yet")
        list(batch)

    queue.insert("a")
    make_sync.start(process_batch=fail_twice, backoff=(0.01, 0.01))
    queue.wait_until_finished()
    assert counts == [1, 1, 1]


NOW = datetime.now(timezone.utc)
BATCH = Batch(1, QUEUE, CONSUMER, 2, 1, NOW, NOW, 0, 0)


def at(attempt, consumer=None):
    """Return the attempts of a process that opened a batch."""
    found = Attempts(consumer or Whole())
    found.opened(Attempt(BATCH, attempt, 1))
    return found


def event(number):
    return Event(number, NOW, 1, None, "test", "data")


def test_each_attempt_takes_smaller_parts():
    assert [at(n).size for n in range(1, 8)] == [10_000, 1000, 30, 1, 1, 1, 1]
    small = Whole(part_size=20)
    assert [at(n, small).size for n in range(1, 5)] == [20, 20, 20, 1]


def test_parts_are_wider_after_many_quiet_ones_but_whole_only_in_the_next_batch():
    attempts = at(4)
    sizes = []
    for _ in range(200):
        sizes.append(attempts.size)
        attempts.part_finished()
    assert sizes == [1] * 34 + [30] * 34 + [1000] * 132


def test_only_an_event_alone_at_the_sixth_attempt_is_the_killer():
    assert at(5).killer_error([event(1)]) is None
    assert at(6).killer_error([event(1)]) is not None
    assert at(6).killer_error([event(1), event(1)]) is not None
    assert at(6).killer_error([event(1), event(2)]) is None
    assert at(6).killer_error([]) is None
    behind = at(5)
    behind.part_finished()
    assert behind.count == 4
