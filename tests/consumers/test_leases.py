"""Workers with a lease: no session holds anything, so a transaction pooler may share sessions."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
import pytest

from tests.consumers.harness import NOTE, QUEUE, Maker, private
from tests.consumers.workers import ENDED, runs, taken
from tests.support import poolers
from tests.support.poolers import pgbouncer
from tests.support.waiting import eventually

NO_POOL = pytest.mark.skipif(poolers.PGBOUNCER is None, reason=poolers.WHY_SKIPPED)
LEASE = 3600  # seconds: nothing extends it in a test
UNTIL = "select max(pos_until) from pgq.position where pos_batch = %s"
LOCKS = "select count(*) from pg_locks where locktype = 'advisory' and classid = 7366514"


@pytest.fixture(params=["direct", pytest.param("pooled", marks=NO_POOL)])
def make(request, asynchronous, dsn, queue):
    """Make workers with a lease, which connect directly or through a pool in transaction mode."""
    if request.param == "direct":
        maker = Maker(dsn, asynchronous=asynchronous)
        yield maker
        maker.close()
        return
    with pgbouncer(dsn, "transaction", server_round_robin=1) as pooled:
        with ExitStack() as stack:
            for _ in range(3):  # each in a transaction: the pool has three sessions from now on
                stack.enter_context(psycopg.connect(pooled)).execute("select 1")
        maker = Maker(pooled, asynchronous=asynchronous)
        yield maker
        maker.close()


def settings(**more):
    return {"shared": True, "lease": LEASE, **more}


def until(connection):
    """The end of the lease of the only batch."""
    (batch,) = taken(connection)
    return connection.execute(UNTIL, [batch]).fetchone()[0]


@pytest.mark.parametrize("transactional", [False, True])
def test_workers_with_a_lease_share_the_events(
    queue, make, effects, gate, waiting_handler, connection, transactional
):
    for data in "abc":
        queue.insert(data)
    chosen = settings(transactional=transactional)
    started = [make.start(waiting_handler[transactional], **chosen) for _ in range(3)]
    eventually(lambda: len(gate.waiting()) == 3)
    assert len(set(taken(connection))) == 3
    assert connection.execute(LOCKS).fetchone() == (0,)
    gate.open()
    eventually(lambda: len(effects()) == 3)
    assert sorted(effects()) == ["a", "b", "c"]
    for running in started:
        running.stop()
    assert taken(connection) == []


@pytest.mark.parametrize(
    "chosen", [{}, {"transactional": True, "part_size": 2}, {"concurrency": 3}]
)
def test_a_batch_larger_than_the_part_size_is_read_to_its_end(
    queue, make, effects, chosen, connect
):
    def transactional(event):
        yield NOTE, [event.data]

    def plain(event):
        with connect() as other:
            other.execute(NOTE, [event.data])

    handler = transactional if chosen.get("transactional") else plain
    queue.insert(*"abcdefg")
    make.start(handler, **settings(**{"part_size": 2, **chosen}))
    queue.wait_until_finished()
    eventually(lambda: len(effects()) == 7)
    assert sorted(effects()) == [*"abcdefg"]


@pytest.mark.parametrize("transactional", [False, True])
def test_the_lease_is_extended_while_a_handler_runs(
    queue, make, effects, gate, waiting_handler, connection, transactional
):
    make.start(waiting_handler[transactional], **settings(transactional=transactional, lease=1))
    queue.insert("a")
    gate.wait_for_arrival()
    at_first = until(connection)
    eventually(lambda: until(connection) > at_first)
    gate.open()
    eventually(lambda: effects() == ["a"] and not taken(connection))


@pytest.mark.parametrize("transactional", [False, True])
def test_a_worker_whose_lease_has_ended_changes_nothing(
    queue, make, effects, gate, waiting_handler, connection, log, transactional
):
    chosen = settings(transactional=transactional)
    late = make.start(waiting_handler[transactional], **chosen)
    queue.insert("a")
    gate.wait_for_arrival()
    (lost,) = taken(connection)
    connection.execute(ENDED)
    other = make.start(waiting_handler[transactional], **chosen)
    eventually(lambda: len(gate.waiting()) == 2)
    (batch,) = taken(connection)
    assert batch != lost
    gate.open()
    eventually(lambda: not taken(connection))
    eventually(lambda: f"batch {lost} of queue {QUEUE}, consumer" in log.text)
    assert "is not ours any more" in log.text
    queue.insert("b")
    eventually(lambda: "b" in effects())
    assert effects() == ["a", "b"] if transactional else sorted(effects()) == ["a", "a", "b"]
    assert late.error is other.error is None


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_worker_begins_no_other_event_of_a_batch_that_was_taken_over(
    queue, make, effects, gate, waiting_handler, connection, concurrency
):
    chosen = settings(lease=1, concurrency=concurrency)
    late = make.start(waiting_handler[False], **chosen)
    queue.insert(*"abcd")
    waiting = 1 if make.asynchronous else concurrency  # this handler keeps other tasks waiting
    eventually(lambda: len(gate.waiting()) == waiting)
    seen = []
    make.start(lambda event: seen.append(event.data), **settings())
    eventually(lambda: connection.execute(ENDED) and seen == [*"abcd"])
    eventually(lambda: private(late.consumer, "loop").held.in_doubt)
    gate.open()
    queue.insert("e")
    eventually(lambda: "e" in [*effects(), *seen])
    late.stop()
    assert sorted({*effects()} - {"e"}) == [*"abcd"][:concurrency]


@pytest.mark.parametrize("chosen", [{}, {"transactional": True, "part_size": 5}])
def test_a_worker_that_stops_gives_its_batch_back(queue, make, connection, log, chosen):
    seen = []

    def once(event):
        seen.append(event.data)
        first.stop()
        return ()

    first = make.consumer(once, **settings(**chosen))
    running = make.run(first)
    queue.insert("a", "b")
    running.join()

    def note(event):
        seen.append(event.data)
        return ()

    make.start(note, **settings(**chosen))
    eventually(lambda: seen[-1] == "b" and not taken(connection))
    assert "crash" not in log.text
    assert "could not tell" not in log.text


def test_a_worker_that_never_had_a_batch_stops_without_a_word(queue, make, log):
    running = make.start(lambda event: (), **settings())
    eventually(lambda: runs(running) is not False)
    running.stop()
    assert [record.levelname for record in log.records] == ["INFO", "INFO"]


def test_workers_with_and_without_a_lease_share_the_events(
    queue, make, make_sync, effects, gate, waiting_handler, connection
):
    queue.insert("a")
    queue.insert("b")
    make.start(waiting_handler[False], **settings())
    make_sync.start(waiting_handler[False], shared=True)
    eventually(lambda: len(gate.waiting()) == 2)
    gate.open()
    eventually(lambda: sorted(effects()) == ["a", "b"] and not taken(connection))
