"""One running process a consumer: the lock, who holds it, and how it survives its session."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress

import pytest

import pgqpy
from pgqpy.errors import ConsumerRunning
from tests.consumers.harness import (
    CONSUMER,
    END,
    QUEUE,
    SESSIONS,
    Maker,
    Queue,
    installed,
    patched,
    private,
    short_grace,
)
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

IDLE = f"{SESSIONS} and state = 'idle' and wait_event = 'ClientRead'"


@pytest.mark.parametrize("settings", [{}, {"transactional": True, "part_size": 1}])
def test_a_consumer_that_is_registered_anew_does_not_run_twice(queue, client, make, settings):
    entered, may_end = threading.Event(), threading.Event()

    def handler(event):
        entered.set()
        assert may_end.wait(30)
        return ()

    first = make.start(handler, wait=False, **settings)
    queue.insert("a")
    assert entered.wait(30)
    client.unregister_consumer(QUEUE, CONSUMER)
    client.register_consumer(QUEUE, CONSUMER)
    second = make.start(lambda event: (), **settings)
    eventually(lambda: private(second.consumer, "worked"))
    with short_grace(), pytest.raises(ConsumerRunning):
        may_end.set()
        first.join()
    queue.deliver("b")


def test_a_second_run_is_refused_as_long_as_the_first_lives(queue, make, connection, log):
    first = make.start(lambda event: None)
    eventually(lambda: "runs" in log.text)
    ((pid,),) = connection.execute(SESSIONS).fetchall()
    with short_grace(), pytest.raises(ConsumerRunning) as caught:
        make.start(lambda event: None, wait=False).join()
    error = caught.value
    assert (error.queue, error.consumer, error.pid) == (QUEUE, CONSUMER, pid)
    assert error.application == f"pgqpy consumer {CONSUMER}"
    assert error.since is not None
    first.stop()
    seen = []
    make.start(lambda event: seen.append(event.data))
    queue.insert("a")
    eventually(lambda: seen == ["a"])


def test_consumers_of_other_names_and_queues_run_beside_it(queue, make, client):
    Queue(client, "other")
    seen = []
    for place, name in ((QUEUE, CONSUMER), (QUEUE, "second"), ("other", CONSUMER)):
        make.start(lambda event, at=(place, name): seen.append(at), queue=place, name=name)
    eventually(lambda: len(client.connection.execute(SESSIONS).fetchall()) == 3)
    eventually(lambda: len(client.get_consumer_info(QUEUE)) == 2)
    queue.insert("a")
    eventually(lambda: sorted(seen) == [(QUEUE, CONSUMER), (QUEUE, "second")])


def test_who_lost_the_lock_to_another_process_ends_with_an_error(queue, make, connect, log):
    running = make.start(lambda event: None, wait=False)
    eventually(lambda: "runs" in log.text)
    thief, watcher = connect(), connect()
    take = "select pg_advisory_lock(7366514, sub_id) from pgq.subscription"
    thread = threading.Thread(target=thief.execute, args=[take])
    thread.start()
    wait_until_blocked(watcher, thief.info.backend_pid)
    with short_grace(), pytest.raises(ConsumerRunning) as caught:
        watcher.execute(END)
        thread.join()
        running.join()
    assert caught.value.pid == thief.info.backend_pid


@pytest.mark.parametrize("settings", [{}, {"transactional": True}])
def test_an_idle_consumer_that_is_registered_anew_takes_the_lock_again(
    queue, client, make, settings
):
    seen: list[str] = []

    def handler(event):
        seen.append(event.data)
        return ()

    first = make.start(handler, **settings)
    queue.deliver("a")
    with client.transaction():
        client.unregister_consumer(QUEUE, CONSUMER)
        client.register_consumer(QUEUE, CONSUMER)
    queue.deliver("b")
    assert seen == ["a", "b"]
    with short_grace(), pytest.raises(ConsumerRunning):
        make.start(handler, wait=False, **settings).join()
    first.stop()


TAKES = {
    "session": ["select pg_advisory_lock(7366514, sub_id) from pgq.subscription"],
    "shared": ["select pg_advisory_lock_shared(7366514, sub_id) from pgq.subscription"],
    "prepared": [
        "begin",
        "select pg_advisory_xact_lock(7366514, sub_id) from pgq.subscription",
        "prepare transaction 'stray'",
    ],
}


@pytest.mark.parametrize("how", TAKES)
def test_a_holder_that_is_no_consumer_is_named(queue, make, connect, connection, login, how):
    role = login()
    stray = connect(user=role, application_name="mallory")
    make.start(lambda event: None).stop()  # registers
    for statement in TAKES[how]:
        stray.execute(statement)
    with short_grace(), pytest.raises(ConsumerRunning) as caught:
        make.start(lambda event: None, wait=False).join()
    error = caught.value
    assert error.role == role
    if how == "prepared":
        assert "rollback prepared 'stray'" in str(error)
    else:
        assert (error.pid, error.application) == (stray.info.backend_pid, "mallory")
        assert "mallory, server process" in str(error)
        assert "is no consumer" in str(error)
        assert f"pg_terminate_backend({error.pid})" in str(error)


@pytest.fixture
def stopped(own_server, asynchronous):
    """A consumer whose session is lost, and the process of it, which the server believes in.

    As after a network that went away without a word: the old backend cannot even notice. Stopped in
    the middle of a statement, it could keep a lock of the server's memory, which every other
    session needs. So it is stopped while it waits for the next one, which is an hour away.
    """
    dsn = installed(own_server)
    with pgqpy.connect(dsn) as client:
        Queue(client)
        maker = Maker(dsn, asynchronous=asynchronous)
        running = maker.start(lambda event: None)
        eventually(lambda: running.consumer.outage() is None)
        ((pid,),) = eventually(lambda: client.connection.execute(IDLE).fetchall())
        os.kill(pid, signal.SIGSTOP)
        with socket.socket(
            fileno=os.dup(private(running.consumer, "session").connection.fileno())
        ) as copy:
            copy.shutdown(socket.SHUT_RDWR)
        yield running, pid, client
        with suppress(ProcessLookupError):  # it went on, and has ended
            os.kill(pid, signal.SIGCONT)
        maker.close()


def test_its_own_session_that_the_server_still_believes_in_is_ended(stopped, log):
    _, pid, _ = stopped
    eventually(lambda: "waiting for our lost session" in log.text)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: "runs again" in log.text)


def test_a_stop_while_it_waits_for_its_own_session_ends_run(stopped, log):
    running, _, _ = stopped
    eventually(lambda: "waiting for our lost session" in log.text)
    running.stop()


def test_one_object_runs_once_though_two_threads_begin_at_the_same_time(queue, make):
    both = threading.Barrier(2)
    consumer = make.consumer(lambda event: None)
    with patched("consumer.check", lambda _consumer: both.wait(30)):
        runs = [make.run(consumer) for _ in range(2)]
        eventually(lambda: any(run.error for run in runs))
    assert [str(run.error) for run in runs if run.error] == [
        f"this {type(consumer).__name__} runs already"
    ]
    queue.deliver("a")
