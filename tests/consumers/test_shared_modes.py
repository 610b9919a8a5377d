"""How a consumer runs, plain or shared: one of the two at a time, changed only by a command."""

from __future__ import annotations

from threading import Thread

import pytest

from pgqpy import calls
from pgqpy.errors import ConsumerRunning, WrongMode
from tests.consumers.harness import CONSUMER, QUEUE, SESSIONS, private
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually


@pytest.mark.usefixtures("no_grace")
def test_a_process_that_is_not_shared_is_refused_beside_workers(queue, make):
    worker = make.start(lambda event: None, shared=True)
    eventually(lambda: private(worker.consumer, "worked"))
    with pytest.raises(ConsumerRunning, match=r"let all of them have shared = True"):
        make.start(lambda event: None).join()


@pytest.mark.usefixtures("no_grace")
def test_a_worker_is_refused_beside_a_process_that_is_not_shared(queue, make):
    plain = make.start(lambda event: None)
    eventually(lambda: private(plain.consumer, "worked"))
    with pytest.raises(ConsumerRunning, match=r"let all of them have shared = True"):
        make.start(lambda event: None, shared=True).join()


def test_a_consumer_changes_how_it_runs_only_by_a_command(queue, make, client, connection, log):
    seen = []
    shared = make.start(lambda event: seen.append(event.data), shared=True)
    queue.insert("a")
    eventually(lambda: seen == ["a"])
    shared.stop()
    with pytest.raises(WrongMode, match=r"is shared.*set_consumer_mode"):
        make.start(lambda event: None).join()
    assert "could not tell" not in log.text, "no run began, so none has an end to tell"
    eventually(lambda: not connection.execute(SESSIONS).fetchall())
    client.call(calls.share.set_consumer_mode(QUEUE, CONSUMER, "plain"))
    plain = make.start(lambda event: seen.append(event.data))
    queue.insert("b")
    eventually(lambda: seen == ["a", "b"])
    plain.stop()
    with pytest.raises(WrongMode, match=r"is not shared.*set_consumer_mode"):
        make.start(lambda event: None, shared=True).join()


def test_a_batch_that_a_run_left_open_is_to_be_finished_before_workers_take_any(
    queue, make, client
):
    def stop(event):
        first.stop()

    first = make.consumer(stop)
    running = make.run(first)
    queue.insert("a", "b")
    running.join()
    with pytest.raises(WrongMode, match="set_consumer_mode"):
        make.start(stop, shared=True).join()
    with pytest.raises(ConsumerRunning, match="a run, or finish_batch, finishes an open batch"):
        client.call(calls.share.set_consumer_mode(QUEUE, CONSUMER, "shared"))


def test_a_worker_whose_every_lock_is_taken_names_the_holder(
    queue, make, client, connect, monkeypatch
):
    monkeypatch.setattr("pgqpy.consumers._sync.worker_lock.MOST_STARTS", 2)
    monkeypatch.setattr("pgqpy.consumers._async.worker_lock.MOST_STARTS", 2)
    client.register_consumer(QUEUE, CONSUMER)
    taken = "select pg_advisory_lock(7366514, max(sub_id) + n) from pgq.registration, "
    with connect(application_name="mallory") as stray:
        stray.execute(f"{taken} generate_series(1, 50) n group by n")
        with pytest.raises(ConsumerRunning, match="mallory"):
            make.start(lambda event: None, shared=True).join()


@pytest.mark.usefixtures("no_grace")
def test_a_worker_refused_behind_a_session_that_waits_names_that_session(
    queue, make, connection, connect
):
    worker = make.start(lambda event: None, shared=True)
    eventually(lambda: private(worker.consumer, "worked"))
    take = """select pg_advisory_lock(7366514, sub_id) from pgq.registration
        where sub_parent is null"""
    with connect(application_name="mallory") as stray:
        waits = Thread(target=stray.execute, args=(take,))
        waits.start()
        pid = stray.info.backend_pid
        wait_until_blocked(connection, pid)
        try:
            with pytest.raises(ConsumerRunning) as shared:
                make.start(lambda event: None, shared=True).join()
            with pytest.raises(ConsumerRunning, match=r"let all of them have shared") as plain:
                make.start(lambda event: None).join()
        finally:
            worker.stop()
            waits.join()
    assert f"after mallory, server process {pid}" in str(shared.value)
    assert shared.value.pid == pid
    assert f"pg_terminate_backend({pid})" in str(shared.value)
    assert plain.value.pid != pid
