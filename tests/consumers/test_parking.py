"""on_error = "park": order per key, while events fail and consumers die."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from psycopg import sql

from pgqpy.consumers import Consumer, Retry
from pgqpy.consumers.handlers import LONGEST, key_text
from tests.consumers.harness import CONSUMER, END, NOTE
from tests.consumers.keyed import Unlucky, insert_keyed, park_now, parked
from tests.support.waiting import eventually

PARK = {"on_error": "park", "key": "extra1", "backoff": (0.0, 3600.0)}
SHAPES: dict[str, dict[str, int]] = {
    "plain": {},
    "parts": {"part_size": 3},
    "concurrency": {"concurrency": 4},
    "lanes, concurrency": {"lanes": 2, "concurrency": 4, "part_size": 5},
}
TRANSACTIONAL: dict[str, dict[str, int]] = {
    "transactional": {"transactional": True, "part_size": 3},
    "transactional lanes": {"transactional": True, "lanes": 4, "part_size": 3},
}
shapes = pytest.mark.parametrize("settings", SHAPES.values(), ids=SHAPES)
all_shapes = pytest.mark.parametrize(
    "settings", (SHAPES | TRANSACTIONAL).values(), ids=SHAPES | TRANSACTIONAL
)


class Mend:
    """A handler that fails at some events until it is mended; transactional ones are generators."""

    def __init__(self, *bad, error=ValueError):
        self.bad = bad
        self.error = error
        self.seen = []

    def __call__(self, event):
        if event.data in self.bad:
            raise self.error(event.data)
        self.seen.append(event.data)

    def transactional(self, event):
        self(event)
        yield NOTE, [event.data]


def handler_of(unlucky, settings):
    """Let the handler of a transactional consumer be a generator."""
    return unlucky.transactional if settings.get("transactional") else unlucky


def lose_connection(queue, running):
    """End the session of a consumer, and wait until it has another one."""
    for ended in (True, False):
        eventually(lambda: running.consumer.outage() is None)
        if ended:
            queue.client.connection.execute(END)


@all_shapes
def test_failed_event_and_its_key_wait_and_other_keys_go_on(queue, make, effects, settings):
    handler = Mend("a-1")
    chosen = PARK | settings | {"backoff": (3600.0, 3600.0)}
    running = make.start(handler_of(handler, settings), **chosen)
    insert_keyed(queue, "a-1", "b-1", "a-2", "b-2")
    insert_keyed(queue, "a-3", "b-3", "none-1")
    queue.wait_until_finished()
    assert parked(queue) == ["a-1", "a-2", "a-3"]
    eventually(lambda: running.consumer.counts().events == 5)  # all but a-2 and a-3
    wanted = ["b-1", "b-2", "b-3", "none-1"]
    assert sorted(set(handler.seen)) == sorted(wanted)
    handler.bad = ()
    park_now(queue)
    eventually(lambda: parked(queue) == [])
    queue.wait_until_finished()
    assert handler.seen[-3:] == ["a-1", "a-2", "a-3"]
    eventually(lambda: running.consumer.counts().events == 8)
    if settings.get("transactional"):
        assert Counter(effects()) == Counter([*wanted, "a-1", "a-2", "a-3"])


def test_handlers_may_have_a_session_whose_arrays_have_no_nulls(queue, make, effects, connection):
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("alter database {} set array_nulls = off").format(database))
    handler = Mend("a-1")
    settings = PARK | {"transactional": True, "backoff": (3600.0, 3600.0)}
    make.start(handler.transactional, **settings)
    insert_keyed(queue, "a-1", "a-2", "b-1")
    queue.wait_until_finished()
    assert (parked(queue), effects()) == (["a-1", "a-2"], ["b-1"])


@all_shapes
def test_head_that_fails_too_often_is_dead_and_frees_its_key(
    queue, client, make, effects, settings
):
    handler = Mend("a-1", "a-2", "b-1")
    make.start(handler_of(handler, settings), **(PARK | settings | {"max_retries": 2}))
    insert_keyed(queue, "a-1", "a-2", "a-3", "b-1", "b-2")
    eventually(lambda: len(client.get_dead_events(queue.name, CONSUMER)) == 3)
    eventually(lambda: parked(queue) == [])
    queue.wait_until_finished()
    dead = client.get_dead_events(queue.name, CONSUMER)
    kept = {(d.ev_data, d.dead_error, d.dead_reason, d.dead_tries) for d in dead}
    assert kept == {(data, "ValueError", data, 3) for data in handler.bad}
    assert all("raise self.error" in d.dead_traceback for d in dead)
    assert sorted(handler.seen[-2:]) == ["a-3", "b-2"]


def test_retries_of_a_busy_transactional_consumer_are_counted(queue, client, make, effects):
    retries: list[int | None] = []

    def handler(event):
        if event.data == "a-1":
            retries.append(event.retry)
            raise ValueError(event.data)
        if len(retries) < 12 and not client.get_dead_events(queue.name, CONSUMER):
            insert_keyed(queue, "b-1")  # so the next batch is there before this one is finished
        yield NOTE, [event.data]

    make.start(handler, **(PARK | {"transactional": True, "max_retries": 2}))
    insert_keyed(queue, "a-1", "a-2", "b-1")
    eventually(lambda: "a-2" in effects())
    assert retries == [None, None, 1, 1, 2, 2]  # each without a savepoint, and with one


@shapes
def test_a_key_is_in_order_whatever_fails_and_whoever_stops(queue, make, settings):
    seed = random.randrange(10**6)
    unlucky = Unlucky(random.Random(seed))
    numbers: Counter[str] = Counter()
    wanted: list[str] = []
    for turn in range(4):
        running = make.start(unlucky, **(PARK | settings | {"max_retries": 3}))
        for _ in range(3):
            batch = []
            for key in unlucky.random.choices("abcdef", k=12):
                numbers[key] += 1
                batch.append(f"{key}-{numbers[key]}")
            insert_keyed(queue, *batch)
            wanted += batch
        if turn % 2:
            lose_connection(queue, running)
        running.stop()
    make.start(unlucky, **(PARK | settings | {"max_retries": 3}))
    queue.wait_until_finished()
    eventually(lambda: parked(queue) == [])
    queue.wait_until_finished()
    unlucky.check()
    assert set(unlucky.done) == set(wanted), seed


def test_asked_retry_parks_the_key_for_that_long(queue, make):
    handler = Mend("a-1", error=lambda _: Retry(after=1000))
    make.start(handler, **PARK)
    insert_keyed(queue, "a-1", "a-2")
    queue.wait_until_finished()
    (key,) = queue.client.connection.execute(
        "select park_error, events, park_after > now() + interval '990 s'"
        " from pgq.get_parked('orders', 'billing')"
    ).fetchall()
    assert key == ("pgqpy.consumers.retry.Retry", 2, True)


def test_event_without_a_key_goes_to_the_retry_queue(queue, make):
    make.start(Mend("none-1"), **(PARK | {"backoff": (3600.0, 3600.0)}))
    insert_keyed(queue, "none-1", "a-1")
    queue.wait_until_finished()
    assert parked(queue) == []
    assert len(queue.retry_delays()) == 1


def test_key_may_be_a_method(queue, make_sync, dsn):
    class Keyed(Consumer):
        queue, name, on_error = "orders", CONSUMER, "park"

        def key(self, event):
            if event.data == "bad":
                raise LookupError
            return int(event.data[-1])

        def process_event(self, event):
            if event.data == "a1":
                raise ValueError

    queue.insert("a1", "b1", "bad", "a2")
    consumer = Keyed(dsn, backoff=(3600.0, 3600.0))
    make_sync.run(consumer)
    queue.wait_until_finished()
    assert parked(queue) == ["a1", "b1"]
    assert len(queue.retry_delays()) == 1


def test_many_failures_are_written_while_the_batch_goes_on(queue, make):
    """Memory holds `part_size` failures, and the parked ones go with the end of their part."""
    handler = Mend(*(f"{key}-1" for key in range(100)))
    make.start(handler, **(PARK | {"part_size": 10, "backoff": (3600.0, 3600.0)}))
    insert_keyed(queue, *(f"{key}-{n}" for n in (1, 2) for key in range(100)))
    queue.wait_until_finished()
    assert handler.seen == []
    assert len(parked(queue)) == 200


WRONG = {
    "needs key": {"key": None},
    "does not go with shared": {"shared": True},
}


@pytest.mark.parametrize(("words", "settings"), WRONG.items(), ids=WRONG)
def test_what_cannot_be_parked_is_refused(dsn, words, settings):
    members = {"queue": "q", "name": "n", "process_event": lambda _self, _event: None}
    kind = type("Bad", (Consumer,), {**members, **PARK, **settings})
    with pytest.raises(ValueError, match=words):
        kind(dsn)


def test_batches_cannot_be_parked(dsn):
    members = {"queue": "q", "name": "n", "process_batch": lambda _self, _batch: None}
    with pytest.raises(ValueError, match="needs process_event"):
        type("Bad", (Consumer,), {**members, **PARK})(dsn)


def test_texts_of_keys():
    assert [key_text(key) for key in (None, "a", 7, "")] == [None, "a", "7", ""]
    assert key_text("x\0y\udc80") == "x\\0y\\udc80"
    long = [key_text("a" * 5000 + end) or "" for end in "bc"]
    assert long[0] != long[1]
    assert {len(each) for each in long} == {LONGEST}
    for wrong in (True, 1.0, ("a",)):
        with pytest.raises(TypeError, match="str, an int or None"):
            key_text(wrong)


@pytest.mark.parametrize("settings", [{}, {"concurrency": 2}], ids=["in turn", "side by side"])
def test_what_was_handled_before_a_parked_event_does_not_come_behind_it(queue, make, settings):
    """Parking and finishing are one transaction: after a crash, either both hold or none."""
    handler = Mend("a-2", "b-1", "c-1")
    died: list[str] = []

    def dies_once(event):
        if event.data == "e-1" and not died:
            eventually(lambda: "a-1" not in parked(queue) and len(parked(queue)) >= 2)
            died.append(event.data)
            raise SystemExit("dead")
        handler(event)

    wanted = PARK | {"part_size": 2, "backoff": (3600.0, 3600.0)} | settings
    insert_keyed(queue, "a-1", "a-2", "b-1", "c-1", "d-1", "d-2", "e-1", "e-2")
    with pytest.raises(SystemExit):
        make.start(dies_once, **wanted).join()
    make.start(dies_once, **wanted)
    queue.wait_until_finished()
    assert parked(queue) == ["a-2", "b-1", "c-1"]
    assert handler.seen.count("a-1") == 1
