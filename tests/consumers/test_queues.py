"""A consumer over several queues: whose events come first, and that none of them waits for ever."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import pytest

from pgqpy.consumers import Retry
from pgqpy.errors import ConsumerRunning, QueueNotFound
from tests.consumers.harness import CONSUMER, END, QUEUE, patched, private, short_grace
from tests.consumers.several import NUMBERS, URGENT, Two
from tests.support.waiting import eventually

KILLED = ("-m", "tests.consumers.killed_in_turn")
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "small lists": {"part_size": 30, "fetch_size": 7},
    "concurrency": {"concurrency": 3, "key": "type"},
    "batches": {"by_batch": True},
    "transactional": {"transactional": True},
    "transactional batches": {"transactional": True, "by_batch": True},
    "shared": {"shared": True},
    "leased": {"shared": True, "lease": 30.0},
    "transactional worker": {"shared": True, "transactional": True},
    "lanes": {"lanes": 2, "key": "extra1"},
    "parking": {"on_error": "park", "key": "extra1"},
}
TOKENS = """
    select q.queue_name, p.pos_holder is not null
      from pgq.current_position p join pgq.queue q on q.queue_id = p.sub_queue
     where p.pos_batch is not null order by 1
"""


@pytest.fixture
def two(queue, make):
    """Two queues, the urgent one before `orders`."""
    return Two(queue, make)


@pytest.mark.parametrize("mode", MODES)
def test_an_urgent_event_comes_after_the_part_at_hand(two, mode, client):
    two.normal.client.insert_events(QUEUE, [("t", data) for data in NUMBERS])
    two.normal.tick()
    two.urgent.insert("first", "second")
    part = MODES[mode].get("part_size", 100)
    running = two.start(NUMBERS[10], **MODES[mode])
    two.wait_at(NUMBERS[10])
    assert sorted(two.data(URGENT)) == ["first", "second"]
    two.urgent.insert("third")
    two.wait_until_asked()
    handled = len(two.seen)
    two.release(NUMBERS[10])
    two.wait_at("third")
    two.wait_until_finished()
    running.stop()
    place = two.seen.index((URGENT, "third"))
    if {"shared", "lanes"} & {*MODES[mode]}:  # their first ranges are small
        assert handled <= place <= handled + part
    else:
        assert place == 2 + part
    assert sorted(two.data(QUEUE)) == NUMBERS
    assert sorted(two.data(URGENT)) == ["first", "second", "third"]
    assert private(running.consumer, "sources").counts().events == 253


@pytest.mark.parametrize("mode", ["plain", "concurrency", "transactional", "shared", "lanes"])
def test_only_the_queue_whose_handlers_run_has_a_token_beside_an_open_batch(two, mode, client):
    settings = MODES[mode] | {"fetch_size": 100}
    two.normal.fill(200)
    two.normal.insert(*NUMBERS)
    running = two.start(NUMBERS[10], "urgent", "late", **settings)
    two.wait_at(NUMBERS[10])
    two.urgent.insert("urgent")
    two.wait_until_asked()
    two.release(NUMBERS[10])
    two.wait_at("urgent")
    tokens = {(name, token) for name, token in client.connection.execute(TOKENS)}
    assert tokens - {(QUEUE, False)} <= {(URGENT, True)}
    if mode != "transactional":  # whose batch is opened in the transaction of its handlers
        assert (URGENT, True) in tokens
    two.release("urgent")
    two.wait_until_finished()
    running.stop()
    assert len(two.data(QUEUE)) == 200 + len(NUMBERS)


def test_an_urgent_event_that_kills_counts_against_no_other(two, client, spawn, log):
    """The process dies while the other queue waits in the middle of a batch."""
    two.normal.insert(*NUMBERS)
    assert spawn(*KILLED, two.make.dsn).wait() == -signal.SIGKILL
    held = client.connection.execute(TOKENS).fetchall()
    assert held == [(QUEUE, False), (URGENT, True)]
    running = two.start()
    two.wait_until_finished()
    running.stop()
    warnings = [r.getMessage() for r in log.records if "unclean end" in r.getMessage()]
    assert [f"queue {URGENT}" in text for text in warnings] == [True]
    assert two.data(QUEUE) == NUMBERS[100:]


def test_an_idle_queue_delays_no_other(two):
    running = two.start()
    for number in range(3):
        two.normal.insert(f"n{number}")
        two.wait_at(f"n{number}")
        two.urgent.insert(f"u{number}")
        two.wait_at(f"u{number}")
    running.stop()


def test_a_failed_batch_that_waits_delays_no_other(two):
    """A handler asks for an hour, and events of the other queue come meanwhile."""
    failing = two.urgent.insert("later")[0]
    two.normal.insert("now")

    running = two.make.start(
        process_batch=_late_batches(two),
        queue="",
        queues=[URGENT, QUEUE],
    )
    two.wait_at("now")
    assert two.urgent.open_batch() is not None
    running.stop()
    assert failing
    assert two.data(QUEUE) == ["now"]


def _late_batches(two):
    def judge(consumer, events):
        two.seen.extend((consumer.queue, event.data) for event in events)
        if consumer.queue == URGENT:
            raise Retry(after=3600)

    def process_batch(self, batch):
        judge(self, list(batch))

    async def process_batch_async(self, batch):
        judge(self, [event async for event in batch])

    return process_batch_async if two.make.asynchronous else process_batch


def test_a_later_queue_has_a_turn_though_earlier_events_never_end(two):
    two.normal.insert(*NUMBERS[:3])
    two.urgent.insert("urgent")
    last = (QUEUE, NUMBERS[2])

    def handler(_event):
        two.seen.append((running.consumer.queue, _event.data))
        if running.consumer.queue == URGENT and last not in two.seen:
            two.urgent.insert("urgent")

    settings = {"queue": "", "queues": [URGENT, QUEUE], "turn_interval": 0.05, "part_size": 1}
    running = two.make.start(handler, **settings)
    eventually(lambda: last in two.seen)
    running.stop()
    places = [two.seen.index((QUEUE, number)) for number in NUMBERS[:3]]
    assert places[0] > 0
    assert places[1] > places[0] + 1
    assert places[2] > places[1] + 1


def test_queues_go_on_after_their_sessions_were_lost(two, client):
    running = two.start(NUMBERS[10])
    two.normal.insert(*NUMBERS)
    two.wait_at(NUMBERS[10])
    client.connection.execute(END)
    two.urgent.insert("urgent")
    two.release(NUMBERS[10])
    two.wait_at("urgent")
    two.wait_until_finished()
    running.stop()
    assert set(two.data(QUEUE)) == set(NUMBERS)


def test_a_queue_that_cannot_start_delays_no_other(two, connect):
    keeper = connect(autocommit=False)
    keeper.execute(
        "select from pgq.registration r join pgq.queue on queue_id = sub_queue"
        " where queue_name = %s for update of r",
        [URGENT],
    )
    two.normal.insert("normal")
    two.urgent.insert("urgent")
    with patched("consumer.LOCK_TIMEOUT", "50ms"):
        running = two.start()
        two.wait_at("normal")
        assert "urgent" in str(running.consumer.outage())
        keeper.rollback()
        two.wait_at("urgent")
        eventually(lambda: running.consumer.outage() is None)
        running.stop()


def test_the_end_of_one_queue_ends_all(two):
    def handler(event):
        raise ValueError(event.data)

    running = two.make.start(handler, queue="", queues=[URGENT, QUEUE], on_error="stop")
    two.normal.insert("broken")
    with pytest.raises(ValueError, match="broken"):
        running.join()
    assert isinstance(running.consumer.handler_error, ValueError)
    assert running.consumer.queue == ""
    again = two.start()
    two.wait_at("broken")
    again.stop()


@pytest.mark.parametrize("error", [SystemExit, MemoryError, KeyboardInterrupt])
def test_what_no_handler_may_raise_ends_run(two, error):
    def handler(_event):
        raise error

    running = two.make.start(handler, queue="", queues=[URGENT, QUEUE])
    two.normal.insert("broken")
    if error is MemoryError:
        eventually(two.normal.retry_delays)
        running.stop()
        return
    with pytest.raises(error):
        running.join()


def test_a_second_process_is_refused(two):
    running = two.start()
    eventually(lambda: running.consumer.outage() is None)
    with short_grace(), pytest.raises(ConsumerRunning):
        two.start().join()
    running.stop()


def test_a_queue_that_is_not_there_is_named(two):
    with pytest.raises(QueueNotFound, match="nowhere"):
        two.start(queues=[URGENT, "nowhere"]).join()


@pytest.mark.parametrize(
    "settings",
    [
        {"queue": QUEUE},
        {"queues": URGENT},
        {"queues": [URGENT, URGENT]},
        {"queues": [""]},
        {"queues": []},
        {"turn_interval": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(two, settings):
    with pytest.raises(ValueError, match=r"Several(\.| has )queue|turn_interval"):
        two.start(**settings)


def test_a_run_again_begins_anew(two):
    running = two.start()
    two.normal.insert("a")
    two.wait_at("a")
    running.stop()
    again = two.make.run(running.consumer)
    two.urgent.insert("b")
    two.wait_at("b")
    again.stop()
    assert running.consumer.counts().events == 2
    assert {each.queue for each in running.consumer.each_queue()} == {URGENT, QUEUE}
    assert running.consumer.name == CONSUMER


@pytest.mark.parametrize("mode", ["plain", "shared", "lanes"])
def test_sessions_that_are_lost_twice_end_no_run(two, mode, client, log):
    """There is no batch in between: what the run tells of the last one is told once."""
    running = two.start(**MODES[mode])
    two.normal.insert("a")
    two.urgent.insert("b")
    two.wait_until_finished()
    for times in (1, 2):
        client.connection.execute(END)
        eventually(partial(lambda count: log.text.count("runs again") == count, 2 * times))
    two.normal.insert("c")
    two.wait_until_finished()
    running.stop()
    assert two.data(QUEUE) == ["a", "c"]
    assert "could not tell" not in log.text
