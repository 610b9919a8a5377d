"""Shared consumers: several workers take batches of one consumer, and take over from dead ones."""

from __future__ import annotations

import pytest

from pgqpy.client._async.reading import AsyncEventReader
from pgqpy.client._sync.reading import EventReader
from pgqpy.consumers import crash
from tests.consumers.harness import CONSUMER, NOTE, QUEUE, SESSIONS
from tests.consumers.workers import AGE, count_statements, runs, taken, workers
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

SILENT = "select now() - min(pos_active) > '30 minutes' from pgq.position where pos_batch = %s"


@pytest.mark.parametrize("transactional", [False, True])
def test_workers_share_the_events(
    queue, make, effects, gate, waiting_handler, connection, transactional
):
    for data in "abc":
        queue.insert(data)
    settings = {"shared": True, "transactional": transactional}
    started = [make.start(waiting_handler[transactional], **settings) for _ in range(3)]
    eventually(lambda: len(gate.waiting()) == 3)
    assert list(workers(connection)) == ["1", "2", "3"]
    assert len(set(taken(connection))) == 3
    gate.open()
    eventually(lambda: len(effects()) == 3)
    assert sorted(effects()) == ["a", "b", "c"]
    for running in started:
        running.stop()
    assert taken(connection) == []


def test_workers_that_begin_share_a_range(queue, make, effects, gate, waiting_handler, connection):
    """Nothing is known of the handlers yet: they may take seconds, and then one worker hours."""
    queue.insert(*map(str, range(100, 130)))
    for _ in range(2):
        make.start(waiting_handler[True], shared=True, transactional=True)
    eventually(lambda: len(gate.waiting()) == 2)
    assert len(taken(connection)) == 2
    gate.open()
    eventually(lambda: len(effects()) == 30 and not taken(connection))
    assert sorted(effects()) == [str(number) for number in range(100, 130)]


def test_a_worker_that_takes_a_batch_holds_no_lock_of_the_one_that_it_finished(
    queue, make, effects, gate, waiting_handler, connect
):
    """Taking locks the consumer, then the worker: who holds both takes them in this order too."""
    make.start(waiting_handler[False], shared=True)
    queue.insert("a")
    gate.wait_for_arrival()
    queue.insert("b")
    administrator = connect()
    with administrator.transaction():
        lock = "select sub_id from pgq.registration where {} for no key update nowait"
        administrator.execute(lock.format("sub_parent is null"))
        gate.open()
        ((pid,),) = administrator.execute(SESSIONS).fetchall()
        assert wait_until_blocked(connect(), pid) == [administrator.info.backend_pid]
        administrator.execute(lock.format("sub_parent is not null"))
    eventually(lambda: effects() == ["a", "b"])


def test_a_process_takes_the_lowest_number_that_is_free(queue, make, connection):
    first, second, third = (make.start(lambda event: None, shared=True) for _ in range(3))
    eventually(lambda: {runs(first), runs(second), runs(third)} == {"1", "2", "3"})
    numbers = runs(first), runs(third)
    first.stop()
    third.stop()
    again = make.start(lambda event: None, shared=True)
    eventually(lambda: runs(again))
    assert runs(again) == min(numbers)
    assert len(workers(connection)) == 3


def test_a_lost_session_is_followed_by_one_with_the_same_number_and_batch(
    queue, make, effects, gate, waiting_handler, connection, connect
):
    running = make.start(waiting_handler[True], shared=True, transactional=True)
    eventually(lambda: runs(running))
    idle = make.start(lambda event: None, shared=True, transactional=False)
    eventually(lambda: runs(idle))
    idle.stop()
    queue.insert("a")
    pid = gate.wait_for_arrival()
    (batch,) = taken(connection)
    connect().execute("select pg_terminate_backend(%s)", [pid])
    eventually(lambda: set(gate.waiting()) - {pid})
    assert workers(connection) == {"1": batch, "2": None}
    gate.open()
    eventually(lambda: effects() == ["a"])


def test_a_worker_whose_number_was_removed_while_its_session_was_lost_takes_another(
    queue, make, connection, connect, effects
):
    running = make.start(lambda event: [(NOTE, [event.data])], shared=True, transactional=True)
    eventually(lambda: runs(running))
    with connect(autocommit=False) as administrator:
        administrator.execute("lock table pgq.registration")  # the worker waits for it
        administrator.execute(f"select pg_terminate_backend(pid, 30000) from ({SESSIONS}) s")
        remove = "select pgq.unregister_subconsumer(%s, %s, '1', 0)"
        assert administrator.execute(remove, [QUEUE, CONSUMER]).fetchone() == (1,)
    queue.insert("a")
    eventually(lambda: effects() == ["a"] and list(workers(connection)) == ["1"])


@pytest.mark.parametrize("settings", [{}, {"transactional": True, "part_size": 5}])
def test_a_batch_of_a_worker_that_stops_goes_on_with_another(
    queue, make, connection, log, settings
):
    seen = []

    def once(event):
        seen.append(event.data)
        first.stop()
        return ()

    first = make.consumer(once, shared=True, **settings)
    running = make.run(first)
    queue.insert("a", "b")
    running.join()

    def note(event):
        seen.append(event.data)
        return ()

    make.start(note, shared=True, **settings)
    eventually(lambda: seen[-1] == "b" and not taken(connection))
    assert "crash" not in log.text


@pytest.mark.parametrize("transactional", [False, True])
def test_an_event_that_killed_its_workers_too_often_is_dead(
    queue, make, connection, client, log, transactional, monkeypatch
):
    """A run that has died left the batch in parts of one event."""
    monkeypatch.setattr(crash, "GRACE", 0)
    connection.execute("select pgq.register_subconsumer(%s, %s, 'x')", [QUEUE, CONSUMER])
    queue.insert("a", "b", "c")
    connection.execute("select pgq.take_part(%s, %s, 'x', 'dead')", [QUEUE, CONSUMER])
    connection.execute("update pgq.position set pos_part = 1, pos_tries = 1 where pos_batch > 0")
    seen = []

    def handler(event):
        seen.append(event.data)
        return ()

    make.start(handler, shared=True, transactional=transactional)
    eventually(lambda: not taken(connection))
    assert seen == ["b", "c"]
    (dead,) = client.get_dead_events(QUEUE, CONSUMER)
    assert dead.ev_data == "a"
    assert "crashed, for the 2. time at the same event" in log.text
    queue.insert("d")
    eventually(lambda: seen == ["b", "c", "d"])
    assert log.text.count("comes from a worker") == 1


@pytest.mark.parametrize("transactional", [False, True])
def test_a_worker_whose_batch_was_taken_over_changes_nothing(
    queue, make, effects, gate, waiting_handler, connection, log, transactional
):
    settings = {"transactional": transactional, "shared": True}
    late = make.start(waiting_handler[transactional], **settings, dead_interval=3600)
    queue.insert("a")
    gate.wait_for_arrival()
    (lost,) = taken(connection)
    connection.execute(AGE)
    other = make.start(waiting_handler[transactional], **settings, dead_interval=60)
    queue.tick()
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


@pytest.mark.parametrize("transactional", [False, True])
def test_a_worker_whose_handler_takes_long_sends_heartbeats(
    queue, make, effects, gate, waiting_handler, connection, transactional
):
    make.start(
        waiting_handler[transactional], transactional=transactional, shared=True, dead_interval=1
    )
    queue.insert("a")
    gate.wait_for_arrival()
    (batch,) = taken(connection)
    connection.execute(AGE)
    assert connection.execute(SILENT, [batch]).fetchone() == (True,)
    eventually(lambda: connection.execute(SILENT, [batch]).fetchone() == (False,))
    assert taken(connection) == [batch]
    gate.open()
    eventually(lambda: effects() == ["a"] and not taken(connection))


@pytest.mark.parametrize("settings", [{}, {"transactional": True, "part_size": 5}])
def test_a_worker_whose_batch_takes_long_to_read_sends_heartbeats(
    queue, make, connection, settings, monkeypatch
):
    seen = []
    kind = AsyncEventReader if make.asynchronous else EventReader
    read = kind.fetch_batch_events

    def read_late(runner, info, *arguments):
        connection.execute(AGE)
        eventually(lambda: connection.execute(SILENT, [info.id]).fetchone() == (False,))
        return read(runner, info, *arguments)

    def handler(event):
        seen.append(event.data)
        return ()

    monkeypatch.setattr(kind, "fetch_batch_events", read_late)
    make.start(handler, shared=True, dead_interval=1, **settings)
    queue.insert("a")
    eventually(lambda: seen and not taken(connection))
    assert seen == ["a"]


@pytest.mark.usefixtures("no_ticker_check")
@pytest.mark.parametrize("transactional", [False, True])
def test_a_look_of_an_idle_worker_is_one_statement(queue, make, monkeypatch, transactional, polls):
    sent = count_statements(monkeypatch)
    polls(0.001)
    make.start(lambda event: (), shared=True, transactional=transactional)
    queue.insert("a")
    eventually(lambda: sum("take_part" in text for text in sent) > 30)
    assert all("take_part" in text for text in sent[-20:]), sent
