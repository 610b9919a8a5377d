"""Each epoch becomes events once, whatever happens to its tasks, its driver and the server."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from pgqpy.spark import connections
from pgqpy.spark.sink.writers import BatchWriter, TaskMessage
from tests.spark.sink.epochs import SCHEMA, WAITING, Epoch, batches
from tests.support.waiting import eventually


def test_nothing_is_inserted_before_the_commit_and_all_of_it_then(epoch, stored):
    one = epoch(1)
    first, second = one.task("a", "b"), one.task("c")
    assert stored() == []
    one.commit(second, first)
    assert stored() == ["a", "b", "c"]


def test_a_repeated_commit_or_epoch_inserts_once_and_a_failed_attempt_is_left_out(
    epoch, stored, caplog
):
    one = epoch(1)
    one.task("a")
    message = one.task("a")
    one.commit(message)
    one.commit(message)
    epoch(1).commit(epoch(1).task("a"))
    assert stored() == ["a"]
    assert caplog.text.count("epoch 1 of query is in queue q: not inserted again") == 2


def test_empty_tasks_and_epochs_do_nothing(epoch, stored, connection):
    one = epoch(1, dsn="host=nowhere.invalid")
    one.commit(one.task(), one.task())
    assert connection.execute(WAITING).fetchone() == (0,)
    epoch(2).commit(epoch(2).task(), epoch(2).task("a"))
    epoch(3).commit(epoch(3).task())
    epoch(4).commit(epoch(4).task("b"))
    assert stored() == ["a", "b"]


def test_rows_of_a_committed_epoch_are_read_to_the_end_outside_a_transaction(epoch, connection):
    epoch(1).commit(epoch(1).task("a"))
    states = "select state from pg_stat_activity where application_name = 'pgqpy spark q'"
    seen = []

    def rows() -> Any:
        for batch in batches("a", "b", "c"):
            yield batch
            seen.append(connection.execute(states).fetchall())

    epoch(1).write(rows())
    assert len(seen) == 3
    assert ("idle in transaction",) not in [state for states in seen for state in states]


def test_of_two_drivers_with_one_epoch_one_wins(epoch, stored, caplog):
    one, other = epoch(1), epoch(1)
    messages = one.task("one"), other.task("one")
    barrier = threading.Barrier(2)

    def commit(which: Epoch, message: TaskMessage) -> None:
        barrier.wait()
        which.commit(message)

    threads = [
        threading.Thread(target=commit, args=pair)
        for pair in zip((one, other), messages, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored() == ["one"]
    assert caplog.text.count("not inserted again") == 1


def test_queries_do_not_disturb_each_other(epoch, stored):
    one, other = epoch(1, "one"), epoch(1, "other")
    first, second = one.task("a"), other.task("b")
    one.commit(first)
    other.commit(second)
    assert stored() == ["a", "b"]


def test_an_aborted_epoch_leaves_nothing(epoch, stored, connection):
    one = epoch(1)
    one.abort(one.task("a"), None)
    assert connection.execute(WAITING).fetchone() == (0,)
    one.abort(None)
    one.abort()
    assert stored() == []


def test_an_abort_without_a_server_says_so_and_goes_on(epoch, caplog, monkeypatch):
    one = epoch(1)
    message = one.task("a")
    one.options["dsn"] = "host=/nowhere"
    monkeypatch.setattr(connections, "RETRY_TIMEOUT", 0)
    one.abort(message)
    assert "left to maintenance" in caplog.text


def test_each_batch_write_is_released_by_one_transaction(options, delivered, connection):
    writer = BatchWriter(options, SCHEMA)
    messages = [writer.write(iter(batches("a", "b"))), writer.write(iter(batches("c")))]
    assert delivered() == []
    pickle.loads(pickle.dumps(writer)).commit(messages)
    assert [data for data, _ in delivered()] == ["a", "b", "c"]
    assert len({txid for _, txid in delivered()}) == 1
    writer = BatchWriter(options, SCHEMA)
    writer.commit([writer.write(iter(batches("a")))])
    assert [data for data, _ in delivered()] == ["a", "b", "c", "a"]
    assert connection.execute(WAITING).fetchone() == (0,)


def test_an_aborted_batch_write_leaves_nothing(options, stored, connection):
    writer = BatchWriter(options, SCHEMA)
    writer.write(iter(batches("a")))
    pickle.loads(pickle.dumps(writer)).abort([None])
    assert stored() == []
    assert connection.execute(WAITING).fetchone() == (0,)


def test_a_task_that_ends_after_its_batch_write_was_aborted_keeps_no_table(
    options, stored, connection, connect
):
    writer = BatchWriter(options, SCHEMA)
    assert writer.write_id is not None
    task = connect(autocommit=False)
    task.execute("select pgq.open_stage('q', %s, null)", [writer.write_id.writer])
    task.execute("select pgq.insert_event('q', 't', 'late')")
    writer.abort([None])
    task.commit()
    writer.write(iter(batches("later still")))
    assert connection.execute(WAITING).fetchone() == (1,)
    connection.execute("select pgq.maint_stages()")
    assert connection.execute(WAITING).fetchone() == (0,)
    assert stored() == []


def test_at_least_once_stages_nothing_and_has_a_transaction_for_each_task(
    epoch, options, delivered, connection
):
    one = epoch(1, mode="at_least_once")
    one.commit(one.task("a"), one.task("b"))
    one.commit(one.task("b"))
    writer = BatchWriter(options | {"mode": "at_least_once"}, SCHEMA)
    writer.commit([writer.write(iter(batches("c", None)))])
    writer.abort([])
    one.abort()
    assert [data for data, _ in delivered()] == ["a", "b", "b", "c", None]
    assert connection.execute("select count(*) from pgq.stage").fetchone() == (0,)
    assert len({txid for _, txid in delivered()}) == 4


def test_a_commit_whose_connection_breaks_is_said_again(epoch, stored, connection, connect):
    one = epoch(1)
    message = one.task("a")
    holder = connect(autocommit=False)
    holder.execute("insert into pgq.ledger values (1, 'query', 0)")
    thread = threading.Thread(target=one.commit, args=[message])
    thread.start()
    waiting = "select pid from pg_stat_activity where wait_event_type = 'Lock' and pid <> %s"
    (pid,) = eventually(
        lambda: connection.execute(waiting, [connection.info.backend_pid]).fetchone()
    )
    connection.execute("select pg_terminate_backend(%s)", [pid])
    holder.rollback()
    thread.join()
    assert stored() == ["a"]


def test_a_task_that_is_killed_in_the_middle_leaves_no_stage(epoch, stored, connection):
    one = epoch(1)

    def broken() -> Any:
        yield from batches("a", "b")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.write(broken())
    assert connection.execute("select count(*) from pgq.stage").fetchone() == (0,)
    assert stored() == []
