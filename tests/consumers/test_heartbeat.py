"""Heartbeats of workers that get no second connection."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgqpy.consumers import Consumer, crash, waiting
from pgqpy.consumers.heartbeat import Heartbeats, HeldBatch
from tests.consumers.harness import CONSUMER, JOIN_TIMEOUT, Maker, private
from tests.support import poolers
from tests.support.waiting import eventually

NO_POOL = pytest.mark.skipif(poolers.PGBOUNCER is None, reason=poolers.WHY_SKIPPED)
ROLE = "drop role if exists lonely; create role lonely login in role pgq_reader connection limit 1"
MODES: list[dict[str, object]] = [{"lanes": 1, "key": "extra1"}, {"shared": True, "lease": 1}]


BLOCKED = "select from pg_locks where relation = 'pgq.position'::regclass and not granted"
COUNT = "update pgq.position set pos_part = 1 where pos_batch > 0"
COUNTED = "select pos_tries from pgq.current_position where pos_batch > 0"


@pytest.fixture
def lonely(asynchronous, dsn, queue, connection):
    """Make consumers of a role that may have one connection."""
    connection.execute(ROLE)
    maker = Maker(f"{dsn} user=lonely", asynchronous=asynchronous)
    yield maker
    maker.close()
    connection.execute("drop role lonely")


def asks_over_its_own_session(queue, make, when_it_runs, **settings):
    """Let one event take so long that the worker has to ask before the next one."""
    seen: list[str] = []

    def handler(event):
        if not seen:
            eventually(lambda: private(running.consumer, "loop").held.in_doubt)
        seen.append(event.data)

    running = make.start(handler, dead_interval=1, **settings)
    eventually(lambda: private(running.consumer, "worked"))
    when_it_runs()
    queue.deliver(*"abcd")
    assert sorted(seen) == [*"abcd"]
    assert not private(running.consumer, "loop").held.in_doubt
    assert running.error is None


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_a_worker_whose_second_connection_is_refused_asks_over_its_own(
    queue, lonely, log, mode, concurrency
):
    asks_over_its_own_session(queue, lonely, lambda: None, concurrency=concurrency, **mode)
    assert "too many connections for role" in log.text
    assert "is not ours any more" not in log.text


@NO_POOL
def test_a_worker_whose_second_connection_waits_asks_over_its_own(queue, asynchronous, dsn, log):
    wait = 60  # seconds; longer than the test
    with (
        poolers.pgbouncer(dsn, "session", default_pool_size=2, query_wait_timeout=wait) as pooled,
        psycopg.connect(pooled) as other,
    ):
        make = Maker(pooled, asynchronous=asynchronous)
        asks_over_its_own_session(queue, make, lambda: other.execute("select 1"), **MODES[0])
        make.close()
    assert "is not ours any more" not in log.text


def reading(make, handle):
    """Return a process_batch of the wanted kind, which calls the function for each event."""

    def process_batch(_self, batch):
        for event in batch:
            handle(event)

    async def process_batch_async(_self, batch):
        async for event in batch:
            handle(event)

    return process_batch_async if make.asynchronous else process_batch


@pytest.mark.parametrize("mode", MODES)
def test_process_batch_asks_over_the_session_of_its_own_while_it_reads(queue, lonely, log, mode):
    seen: list[tuple[str, float]] = []

    def handle(event):
        held = private(running.consumer, "loop").held
        seen.append((event.data, held.beat_at))
        if event.data == "a":
            eventually(lambda: held.in_doubt)

    running = lonely.start(
        process_batch=reading(lonely, handle), dead_interval=1, part_size=2, **mode
    )
    eventually(lambda: private(running.consumer, "worked"))
    queue.deliver(*"abcd")
    assert [data for data, _ in seen] == [*"abcd"]
    assert seen[1][1] > seen[0][1]
    assert "is not ours any more" not in log.text


READERS = 4


def test_threads_that_read_one_batch_do_not_ask_at_once(queue, dsn, connection):
    together = threading.Barrier(READERS)
    seen: list[str] = []

    def read(batch):
        for event in batch:
            seen.append(event.data)
            if event.data == "a":
                eventually(lambda: private(running.consumer, "loop").held.in_doubt)
                together.wait(JOIN_TIMEOUT)

    def process_batch(_self, batch):
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(read, [batch] * READERS))

    connection.execute(ROLE)
    maker = Maker(f"{dsn} user=lonely", asynchronous=False)
    try:
        running = maker.start(process_batch=process_batch, dead_interval=1, shared=True)
        eventually(lambda: private(running.consumer, "worked"))
        queue.deliver(*"abcd")
        assert sorted(seen) == sorted(READERS * "abcd")
        assert running.error is None
    finally:
        maker.close()
        connection.execute("drop role lonely")


def test_process_batch_learns_while_it_reads_that_its_batch_was_taken_over(
    queue, lonely, log, connection
):
    other = "select pgq.register_subconsumer('orders', 'billing', 'other')"
    taken = "select worker from pgq.take_part('orders', 'billing', 'other', 'h:1:x', null, '0')"
    seen: list[str] = []

    def handle(event):
        seen.append(event.data)
        if len(seen) == 1:
            connection.execute(other)
            assert connection.execute(taken).fetchone() == ("other",)
            eventually(lambda: private(running.consumer, "loop").held.in_doubt)

    running = lonely.start(process_batch=reading(lonely, handle), dead_interval=1, shared=True)
    eventually(lambda: private(running.consumer, "worked"))
    queue.insert(*"ab")
    queue.wait_until_finished()  # the other one has no session: the batch is taken again
    assert seen == [*"aab"]
    assert "is not ours any more" in log.text
    assert running.error is None


@pytest.mark.parametrize("transactional", [False, True])
def test_a_worker_that_can_give_no_heartbeat_has_an_outage(queue, lonely, log, transactional):
    seen: list[str] = []

    def handler(*_):
        seen.append(str(eventually(running.consumer.outage)))
        return ()

    running = lonely.start(
        handler, dead_interval=1, transactional=transactional, lanes=1, key="extra1"
    )
    eventually(lambda: private(running.consumer, "worked"))
    queue.deliver("a")
    assert "no heartbeat for batch" in seen[0]
    assert "one more for each worker, raise dead_interval, or set a smaller part_size" in seen[0]
    eventually(lambda: running.consumer.outage() is None)


def test_each_part_of_a_transactional_worker_is_a_heartbeat(queue, lonely):
    signs: list[float] = []

    def handler(event):
        signs.append(private(running.consumer, "loop").held.beat_at)
        if event.data == "a":
            eventually(running.consumer.outage)
        return ()

    running = lonely.start(
        handler, dead_interval=1, transactional=True, part_size=1, lanes=1, key="extra1"
    )
    eventually(lambda: private(running.consumer, "worked"))
    queue.deliver(*"ab")
    first, second = signs
    assert second >= first + 1  # dead_interval


def held_by(**settings):
    """Return what a worker with these settings holds: a batch, with a heartbeat long ago."""
    kind = type("Worker", (Consumer,), {"queue": "q", "name": "c", "process_event": print})
    held = HeldBatch(kind("", **settings))
    held.take(1, waiting.boottime())
    held.beat_at = waiting.boottime() - 1000
    return held


def test_only_a_worker_with_an_open_batch_owes_heartbeats():
    held = held_by(shared=True)
    assert held.outage()
    held.beat(waiting.boottime(), is_open=False)
    assert held.outage() is None
    held.take(2, waiting.boottime())
    assert held.outage() is None
    assert held_by().outage() is None


def test_a_finished_part_is_a_heartbeat_but_extends_no_lease():
    now = waiting.boottime()
    for settings, owes in (({}, False), ({"lease": 30}, True)):
        held = held_by(shared=True, **settings)
        held.part_finished(now)
        assert (held.outage() is not None) == owes
        assert held.in_doubt == owes
    assert "raise lease" in str(held.outage())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a clock that counts it")
def test_a_worker_asks_after_its_machine_was_suspended(monkeypatch):
    """time.monotonic() stands still meanwhile."""
    held = held_by(shared=True)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    assert held.in_doubt


@pytest.mark.parametrize("mode", [{"shared": True}, {"lanes": 1, "key": "extra1"}])
def test_an_event_is_not_dead_because_live_workers_gave_no_heartbeat(
    queue, lonely, connection, client, log, mode, monkeypatch
):
    """Two workers have two connections: the second one takes the event over from the first."""
    connection.execute("alter role lonely connection limit 2")
    began: list[int] = []
    done = threading.Event()

    def handler(_event):
        began.append(1)
        if len(began) == 1:
            connection.execute(COUNT)
        assert done.wait(JOIN_TIMEOUT)

    monkeypatch.setattr(crash, "MAX_ATTEMPTS", 4)
    both = [lonely.start(handler, dead_interval=1, **mode) for _ in "12"]
    eventually(lambda: all(private(running.consumer, "worked") for running in both))
    queue.insert("a")
    eventually(lambda: len(began) == 2)
    assert connection.execute(COUNTED).fetchone() == (1,)
    done.set()
    queue.wait_until_finished()
    assert client.get_dead_events(queue.name, CONSUMER) == []
    eventually(lambda: "is not ours any more" in log.text)


@pytest.mark.parametrize("mode", MODES)
def test_the_time_of_the_look_is_that_of_the_first_sign(queue, make, connect, mode):
    """Not that of its answer: a process may be stopped while it waits for that."""
    signs: list[float] = []

    def handler(_event):
        signs.append(private(running.consumer, "loop").held.beat_at)
        return ()

    running = make.start(handler, **mode)
    eventually(lambda: private(running.consumer, "worked"))
    with connect(autocommit=False) as blocker:
        blocker.execute("lock table pgq.position in access exclusive mode")
        queue.insert("b")
        eventually(lambda: len(blocker.execute(BLOCKED).fetchall()) > 0)
        waited = time.monotonic()
    queue.wait_until_finished()
    assert signs[-1] < waited


def test_session_that_gives_signs_is_not_ended_while_it_is_idle(dsn, connection, make):
    name = connection.info.dbname
    connection.execute(f"alter database {name} set idle_session_timeout = '1s'".encode())
    signs = Heartbeats(make.consumer(lambda event: None, shared=True), dsn, lambda: None)
    with signs._connect() as client:
        assert client.connection.execute("show idle_session_timeout").fetchone() == ("0",)
