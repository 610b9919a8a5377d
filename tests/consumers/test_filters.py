"""Consumers that take only some events, as their settings say."""

from __future__ import annotations

import threading

import pytest

from pgqpy import calls
from pgqpy.consumers._async import worker_lock as _async
from pgqpy.consumers._sync import worker_lock as _sync
from pgqpy.errors import ConsumerRunning, InvalidArgument
from tests.consumers.harness import CONSUMER, JOIN_TIMEOUT, QUEUE, SESSIONS, private
from tests.support.waiting import eventually

LEASE = 3600  # seconds: nothing ends it in a test
OTHER = "takes other events than before"


def insert(queue, *types):
    """Insert events whose data is their type, and their extra1 what follows a slash; tick."""
    for kind in types:
        name, _, extra = kind.partition("/")
        queue.client.insert_event(queue.name, name, kind, extra1=extra or None)
    queue.tick()


def start(make, **settings):
    """Run a consumer that does nothing, until it has begun to take batches."""
    running = make.start(lambda event: None, **settings)
    eventually(lambda: private(running.consumer, "worked"))
    return running


@pytest.mark.parametrize("shared", [False, True])
def test_consumer_gets_the_events_of_its_settings(queue, make, log, shared):
    seen = []
    settings = {"filter": {"type": ("order.*", "paid"), "extra1": ["eu"]}, "shared": shared}
    running = make.start(lambda event: seen.append(event.data), **settings)
    eventually(lambda: private(running.consumer, "worked"))
    insert(queue, "other", "order.a/us")
    insert(queue, "order.a/eu", "paid/eu", "paid", "order", "other/eu")
    eventually(lambda: seen == ["order.a/eu", "paid/eu"])
    queue.wait_until_finished()
    assert log.text.count(OTHER) == 1
    assert "types order.*, paid; extra1 eu" in log.text


def test_consumer_without_the_settings_takes_what_is_registered(queue, make, client, log):
    seen = []
    client.set_consumer_filter(QUEUE, CONSUMER, types=["a"])
    make.start(lambda event: seen.append(event.data))
    insert(queue, "b", "a")
    eventually(lambda: seen == ["a"])
    assert OTHER not in log.text


def test_settings_are_registered_when_they_differ(queue, make, client, log):
    start(make, filter={"type": ["b", "a"]}).stop()
    log.clear()
    start(make, filter={"type": ["a", "b"]}).stop()
    assert OTHER not in log.text
    start(make, filter={"type": ["*"]}).stop()
    assert OTHER in log.text
    assert client.call(calls.admin.get_worker_info(QUEUE, CONSUMER))[0].filter is None


@pytest.mark.usefixtures("no_grace")
def test_of_two_programs_with_different_settings_the_second_is_refused(queue, make, connection):
    one = start(make, filter={"type": ["a"]}, shared=True)
    start(make, filter={"type": ["a"]}, shared=True).stop()
    start(make, shared=True).stop()
    with pytest.raises(ConsumerRunning, match=r"is running with another filter.*stop it first"):
        make.start(lambda event: None, filter={"type": ["b"]}, shared=True).join()
    one.stop()
    eventually(lambda: not connection.execute(SESSIONS).fetchall())
    start(make, filter={"type": ["b"]}, shared=True).stop()


def test_workers_that_start_at_the_same_time_take_the_same_events(queue, make, monkeypatch):
    both = threading.Barrier(2, timeout=JOIN_TIMEOUT)  # each has its lock, before it goes on

    async def take_async(self, *arguments, take=_async.AsyncWorkerLock.take):
        await take(self, *arguments)
        both.wait()

    def take(self, *arguments, take=_sync.WorkerLock.take):
        take(self, *arguments)
        both.wait()

    monkeypatch.setattr(_async.AsyncWorkerLock, "take", take_async)
    monkeypatch.setattr(_sync.WorkerLock, "take", take)
    workers = [
        make.start(lambda event: None, filter={"type": ["a"]}, shared=True) for _ in range(2)
    ]
    eventually(lambda: all(private(worker.consumer, "worked") for worker in workers))


@pytest.mark.parametrize("transactional", [False, True])
def test_idle_worker_ends_when_the_filter_is_not_its_own(queue, make, client, transactional):
    running = start(
        make, filter={"type": ["a"]}, shared=True, lease=LEASE, transactional=transactional
    )
    queue.tick()
    queue.wait_until_finished()
    client.set_consumer_filter(QUEUE, CONSUMER, types=["b"])
    both = r'takes {"types": \["b"\]}, the worker asks for {"types": \["a"\]}'
    with pytest.raises(ConsumerRunning, match=both):
        running.join()


def test_worker_with_a_lease_leaves_the_filter_of_others(queue, make, client, log):
    seen = []
    settings = {"shared": True, "lease": LEASE}
    first = make.start(lambda event: seen.append(event.data), filter={"type": ["a"]}, **settings)
    insert(queue, "b", "a")
    eventually(lambda: seen == ["a"])
    with pytest.raises(ConsumerRunning, match="the worker asks for"):
        make.start(lambda event: None, filter={"type": ["b"]}, **settings).join()
    insert(queue, "b", "a")
    eventually(lambda: seen == ["a", "a"])
    first.stop()
    client.set_consumer_filter(QUEUE, CONSUMER, types=["b"])
    start(make, filter={"type": ["b"]}, **settings).stop()
    assert log.text.count(OTHER) == 1


@pytest.mark.parametrize("settings", [{"lease": LEASE}, {}])
def test_filter_that_was_changed_while_a_session_was_lost_stays(queue, make, connect, settings):
    change = "select pgq.set_consumer_filter(%s, %s, %s)"
    running = start(make, filter={"type": ["a"]}, shared=True, **settings)
    with connect(autocommit=False) as administrator:
        administrator.execute("lock table pgq.registration")  # the worker waits for it
        administrator.execute(f"select pg_terminate_backend(pid, 30000) from ({SESSIONS}) s")
        wanted = [QUEUE, CONSUMER, '{"types": ["b"]}']
        assert administrator.execute(change, wanted).fetchone() == (1,)
    with pytest.raises(ConsumerRunning, match="the worker asks for"):
        running.join()
    with connect() as administrator:
        assert administrator.execute(change, wanted).fetchone() == (0,)


def test_running_consumer_keeps_its_filter(queue, make, client):
    start(make, filter={"type": ["a"]})
    with pytest.raises(ConsumerRunning, match="another filter"):
        client.set_consumer_filter(QUEUE, CONSUMER, types=["b"])
    assert client.set_consumer_filter(QUEUE, CONSUMER, types=["a"]) == 0


@pytest.mark.parametrize(
    "wanted",
    [
        *({"type": texts} for texts in ("order.*", [], [1], {"a"}, ["a\0"], b"a", 5)),
        *(["a"], {"extra5": ["a"]}, {"types": ["a"]}, {"extra1": "a"}, {"extra1": []}, 5),
    ],
)
def test_a_filter_has_lists_of_texts(make, wanted):
    with pytest.raises(ValueError, match=r"filter is None or lists such as"):
        make.consumer(lambda event: None, filter=wanted)


def test_what_only_the_server_refuses_ends_the_run(queue, make):
    with pytest.raises(InvalidArgument, match="may only end a type"):
        make.start(lambda event: None, filter={"type": ["a*b"]}).join()
