"""Shared consumers: claims, order per key, failures, lists."""

from __future__ import annotations

import threading

import pytest

from pgqpy import calls
from pgqpy.consumers import Retry
from pgqpy.errors import (
    ConsumerNotFound,
    ConsumerRunning,
    QueueNotFound,
    WrongMode,
    WrongTransaction,
)
from tests.consumers.harness import NOTE
from tests.consumers.play import Play
from tests.consumers.sharing import CLAIMED, NAME, insert, is_done, one, start
from tests.support.waiting import eventually

DEAD = "select ev_data, dead_reason from pgq.dead_event order by ev_id"


def test_each_event_goes_to_one_of_the_processes(queue, make, connection):
    seen = []
    running = [start(make, lambda event: seen.append(event.data)) for _ in range(3)]
    insert(queue, *map(str, range(60)))
    eventually(lambda: len(seen) == 60)
    is_done(connection)
    assert sorted(seen, key=int) == [str(number) for number in range(60)]
    assert sum(each.consumer.counts().events for each in running) == 60


def test_handlers_run_side_by_side(queue, make, connection):
    play = Play()
    play.hold(*"abcd")
    start(make, play.handle, concurrency=3)
    insert(queue, *"abcd")
    play.wait_for(*"abc")
    play.release("b")
    play.wait_for(*"acd")
    play.release(*"acd")
    is_done(connection)
    assert play.most == 3


def test_events_of_a_key_keep_their_order_in_all_processes(queue, make, connection):
    play = Play()
    play.hold("a-1", "b-1")
    for _ in range(2):
        start(make, play.handle, concurrency=4, key="extra1")
    insert(queue, "a-1", "a-2", "b-1", "a-3", "b-2", "c-1")
    eventually(lambda: "c-1" in play.ended)
    play.wait_for("a-1", "b-1")
    play.release("a-1")
    eventually(lambda: {"a-2", "a-3"} <= set(play.ended))
    play.wait_for("b-1")
    play.release("b-1")
    is_done(connection)
    assert [each for each in play.ended if each[0] == "a"] == ["a-1", "a-2", "a-3"]


@pytest.mark.parametrize(
    ("on_error", "then"), [("retry", ["a-2", "a-1"]), ("park", ["a-1", "a-2"])]
)
def test_failed_event_lets_its_key_go_on_or_keeps_it(queue, make, connection, on_error, then):
    done, failed = [], []

    def handle(event):
        if event.data == "a-1" and not event.retry:
            failed.append(event.data)
            raise ValueError
        done.append((event.data, event.retry))

    settings = {"key": "extra1", "on_error": on_error, "backoff": (0.01, 0.01)}
    start(make, print, concurrency=3, **settings).stop()
    insert(queue, "a-1", "a-2", "b-1")
    start(make, handle, concurrency=3, **settings)
    is_done(connection)
    assert failed == ["a-1"]
    assert [data for data, _ in done if data[0] == "a"] == then
    assert ("a-1", 1) in done
    assert ("b-1", None) in done


@pytest.mark.parametrize(
    "settings", [{"on_error": "dead"}, {"max_retries": 0}, {"give_up": (KeyError,)}]
)
def test_failed_event_is_given_up(queue, make, connection, settings):
    def handle(_event):
        raise KeyError("a")

    running = start(make, handle, **settings)
    insert(queue, "a")
    eventually(lambda: connection.execute(DEAD).fetchall() == [("a", "'a'")])
    is_done(connection)
    eventually(lambda: running.consumer.counts().dead == 1)


def test_handler_may_ask_for_a_delay(queue, make, connection):
    seen = []

    def handle(event):
        seen.append(event.retry)
        if len(seen) < 3:
            raise Retry(after=0)

    start(make, handle, max_retries=0)
    insert(queue, "a")
    is_done(connection)
    assert seen == [None, 1, 2]


def test_error_ends_the_run_with_on_error_stop(queue, make, connection):
    seen = []

    def handle(event):
        seen.append(event.data)
        if event.data == "b-1":
            raise ValueError("no")

    start(make, handle, key="extra1").stop()
    insert(queue, "a-1", "b-1", "b-2")
    running = start(make, handle, on_error="stop", key="extra1", concurrency=3)
    with pytest.raises(ValueError, match="no"):
        running.join()
    assert "b-2" not in seen
    again = []
    start(make, lambda event: again.append((event.data, event.retry)), key="extra1")
    is_done(connection)
    assert [each for each in again if each[0][0] == "b"] == [("b-1", None), ("b-2", None)]


def test_list_has_at_most_limit_events(queue, make_sync, connection):
    lists = []
    start(make_sync, print, lists=True).stop()
    insert(queue, *"abcdef")
    start(
        make_sync, lambda batch: lists.append([event.data for event in batch]), lists=True, limit=4
    )
    is_done(connection)
    assert max(map(len, lists)) == 4
    assert sorted(data for each in lists for data in each) == [*"abcdef"]


def test_list_ends_its_events_but_those_that_are_retried_or_given_up(queue, make_sync, connection):
    seen = []

    def handle(batch):
        for event in batch:
            seen.append((event.data, event.retry))
            if event.data == "again" and not event.retry:
                batch.retry(event, 0)
            elif event.data == "dead":
                batch.dead(event, "why")

    running = start(make_sync, handle, lists=True)
    insert(queue, "a", "again", "dead", "z")
    is_done(connection)
    first = [("a", None), ("again", None), ("dead", None), ("z", None)]
    assert sorted(seen, key=str) == sorted([*first, ("again", 1)], key=str)
    assert connection.execute(DEAD).fetchall() == [("dead", "why")]
    eventually(lambda: running.consumer.counts().dead == 1)


def test_failed_list_comes_again_whole(queue, make_sync, connection):
    lists = []

    def handle(batch):
        lists.append([(event.data, event.retry) for event in batch])
        if len(lists) == 1:
            raise ValueError

    start(make_sync, handle, lists=True, backoff=(0, 0))
    insert(queue, "bad", "f")
    is_done(connection)
    assert lists == [[("bad", None), ("f", None)], [("bad", 1), ("f", 1)]]


def test_list_that_was_not_read_comes_again(queue, make_sync, connection, log):
    seen = []

    def handle(batch):
        for event in batch:
            seen.append(event.data)
            if len(seen) == 1:
                break

    start(make_sync, handle, lists=True, backoff=(0, 0))
    insert(queue, "a", "b")
    is_done(connection)
    assert seen == ["a", "a", "b"]
    assert "without having read the whole list" in log.text


@pytest.mark.parametrize("concurrency", [1, 3])
def test_handlers_have_transactions_of_their_own(queue, make, effects, connection, concurrency):
    def handle(event, connection):
        result = connection.execute(NOTE, [event.data])
        if event.data == "b" and not event.retry:
            if make.asynchronous:
                return _then_fail(result)
            raise ValueError
        return result if make.asynchronous else None

    async def _then_fail(result):
        await result
        raise ValueError

    start(make, handle, transactional=True, concurrency=concurrency, backoff=(0, 0))
    insert(queue, *"abc")
    is_done(connection)
    assert sorted(effects()) == ["a", "b", "c"]


def test_queues_are_read_by_priority(queue, make, connection):
    client = queue.client
    client.create_queue("urgent")
    seen, first = [], threading.Event()

    def handle(event):
        seen.append(event.data)
        assert first.wait(30)

    settings = {"queues": ["urgent", "orders"], "queue": "urgent"}
    running = start(make, handle, **settings)
    insert(queue, "first")
    eventually(lambda: seen)
    insert(queue, "later")
    client.insert_event("urgent", "test", "now")
    client.tick_queue("urgent")
    first.set()
    eventually(lambda: len(seen) == 3)
    is_done(connection)
    assert seen == ["first", "now", "later"]
    assert running.consumer.queue == "urgent"


def test_process_with_another_key_or_mode_is_refused(queue, make, connection):
    start(make, print, key="extra1").stop()
    with pytest.raises(WrongMode, match=r"extra1.*extra2|extra2.*extra1"):
        start(make, print, key="extra2").join()
    with pytest.raises(WrongMode):
        make.start(print, name=NAME).join()


@pytest.mark.parametrize("settings", [{"key": "extra1", "per_key": 2}, {"limit_in_flight": 2}])
def test_limits_hold_over_all_processes(queue, make, connection, settings):
    play = Play()
    datas = [f"a-{number}" for number in range(6)]
    play.hold(*datas)
    for _ in range(2):
        start(make, play.handle, concurrency=4, **settings)
    insert(queue, *datas)
    eventually(lambda: len(play.running) == 2)
    assert one(connection, CLAIMED) == 2
    play.release(*datas)
    is_done(connection)
    assert sorted(play.ended) == datas
    assert play.most == 2


def test_rate_holds_over_all_processes(queue, make, connection):
    play = Play()

    def wait_for(number):
        eventually(lambda: len(play.ended) == number)

    for _ in range(2):
        start(make, play.handle, concurrency=4, rate="1/h")
    insert(queue, *"abc")
    for number in (1, 2, 3):
        wait_for(number)
        assert queue.client.receive(queue.name, NAME, wait=0) == []
        connection.execute("update pgq.claim_rate set rate_time = rate_time - interval '1 hour'")
    is_done(connection)
    assert sorted(play.ended) == [*"abc"]


def test_dead_event_lets_its_key_go_on(queue, make, connection):
    done = []

    def handle(event):
        if event.data == "a-1":
            raise ValueError
        done.append(event.data)

    start(make, handle, key="extra1", on_error="park", max_retries=0)
    insert(queue, "a-1", "a-2", "a-3")
    is_done(connection)
    assert done == ["a-2", "a-3"]


def test_events_of_a_list_are_retried_with_their_key(queue, make_sync, connection):
    lists = []

    def handle(batch, _connection):
        events = list(batch)
        lists.append([event.data for event in events])
        for event in events:
            if not event.retry:
                batch.retry(event, 0)

    settings = {"key": "extra1", "on_error": "park", "transactional": True}
    start(make_sync, handle, lists=True, **settings).stop()
    with queue.client.transaction():  # one run has all of a key that come at once
        for number in range(40):
            queue.client.insert_event("orders", "test", f"a-{number}", extra1="a")
    start(make_sync, handle, lists=True, **settings)
    is_done(connection)
    seen = [data for each in lists for data in each]
    assert sorted(seen) == sorted([f"a-{number}" for number in range(40)] * 2)


@pytest.mark.parametrize("statement", ["commit", "commit; begin"])
def test_handler_that_commits_ends_the_run(queue, make_sync, effects, statement):
    def handle(event, connection):
        connection.execute(NOTE, [event.data])
        connection.execute(statement)

    running = start(make_sync, handle, transactional=True)
    insert(queue, "a")
    with pytest.raises(WrongTransaction):
        running.join()
    assert effects() == ["a"]


def test_what_a_handler_leaves_open_is_its_failure(queue, make_sync, connection):
    def handle(_event, connection):
        connection.pgconn.enter_pipeline_mode()

    start(make_sync, handle, transactional=True, max_retries=0)
    insert(queue, "a")
    is_done(connection)
    assert "left a statement" in one(connection, "select dead_reason from pgq.dead_event")


def test_queue_that_is_dropped_ends_the_run(queue, make, connection):
    queue.client.create_queue("urgent")
    running = start(make, print, queues=["orders", "urgent"], lease=1)
    queue.client.drop_queue("urgent", force=True)
    with pytest.raises((ConsumerNotFound, QueueNotFound)):
        running.join()


def test_a_receiver_by_the_former_name_of_its_queue_is_told_the_new_one(queue, make):
    running = start(make, print)
    queue.client.call(calls.admin.rename_queue("orders", "purchases"))
    with pytest.raises(QueueNotFound, match="queue orders was renamed to purchases"):
        running.join()


def test_processes_of_a_consumer_have_one_filter(queue, make, connection):
    done = []
    first = start(make, lambda event: done.append(event.data), filter={"type": ["test"]})
    with pytest.raises(ConsumerRunning, match="another filter"):
        start(make, print, filter={"type": ["other"]}).join()
    insert(queue, "a")
    is_done(connection)
    assert done == ["a"]
    first.stop()
    start(make, print, filter={"type": ["other"]}).stop()
