"""What tasks stage becomes events once, and as a whole."""

from __future__ import annotations

import threading
from uuid import uuid4

import psycopg
import pytest

from tests.schema.stages import COMMIT, EVENTS, state
from tests.support.waiting import eventually


def test_committed_events_come_in_the_order_of_attempts_and_pieces(stage, sql, rows):
    first, second = uuid4(), uuid4()
    for piece in (3, 1, 2):
        stage("w", 1, f"first {piece}a", f"first {piece}b", piece=piece, attempt=first)
        stage("w", 1, f"second {piece}", piece=piece, attempt=second)
    assert sql(COMMIT, "w", 1, [second, first], 9) == 1
    assert [data for _, data, _ in rows(EVENTS)] == [
        *(f"second {piece}" for piece in (1, 2, 3)),
        *(f"first {piece}{half}" for piece in (1, 2, 3) for half in "ab"),
    ]


def test_fields_that_are_null_stay_so(queue, sql, rows):
    attempt = uuid4()
    table = sql("select pgq.open_stage('q', 'w', 1)")
    sql(
        f"insert into {table} (attempt, piece, ev_types, ev_datas, ev_extra1s)"
        " values (%s, 1, '{a,b}', '{1,null}', '{null,2}'), (%s, 2, '{c}', null, null)",
        attempt,
        attempt,
    )
    assert sql(COMMIT, "w", 1, [attempt], 3) == 1
    assert rows(EVENTS) == [("a", "1", None), ("b", None, "2"), ("c", None, None)]


def test_consumers_get_committed_events_in_one_batch(stage, sql, rows, batch):
    attempt = stage("w", 1, "a", "b")
    assert batch() == 1
    assert rows("select ev_data from pgq.get_batch_events(1)") == []
    sql("select pgq.finish_batch(1)")
    sql(COMMIT, "w", 1, [attempt], 2)
    found = rows(
        "select ev_data, ev_txid > 0, ev_time is not null from pgq.get_batch_events(%s)", batch()
    )
    assert found == [("a", True, True), ("b", True, True)]


def test_attempts_that_are_not_named_are_left_out(stage, sql, rows):
    stage("w", 1, "of a task that failed later")
    attempt = stage("w", 1, "good")
    assert sql(COMMIT, "w", 1, [attempt], 1) == 1
    assert rows(EVENTS) == [("t", "good", None)]
    again = stage("w", 2, "next")
    assert sql(COMMIT, "w", 2, [again], 1) == 1
    assert [data for _, data, _ in rows(EVENTS)] == ["good", "next"]


def test_an_epoch_is_committed_once(stage, sql, rows):
    attempt = stage("w", 5, "a")
    assert sql(COMMIT, "w", 5, [attempt], 1) == 1
    assert sql(COMMIT, "w", 5, [attempt], 1) == 0
    assert sql(COMMIT, "w", 4, [attempt], 1) == 0
    assert sql("select pgq.open_stage('q', 'w', 5)") is None
    assert sql("select pgq.open_stage('q', 'w', 4)") is None
    assert sql("select pgq.open_stage('q', 'w', 9)") is not None, "epochs may be left out"
    assert rows(EVENTS) == [("t", "a", None)]


def test_writers_and_queues_know_nothing_of_each_other(stage, sql, rows):
    sql("select pgq.create_queue('r')")
    one, other = stage("w", 5, "a"), stage("v", 1, "b")
    assert sql(COMMIT, "w", 5, [one], 1) == 1
    assert sql(COMMIT, "v", 1, [other], 1) == 1
    assert sql("select pgq.open_stage('r', 'w', 1)") is not None
    assert [data for _, data, _ in rows(EVENTS)] == ["a", "b"]


@pytest.mark.parametrize("epoch", [1, None])
def test_fewer_events_than_the_tasks_wrote_are_not_committed(stage, sql, rows, epoch):
    attempts = [stage("w", epoch, "a", "b"), stage("w", epoch, "c")]
    sql("delete from pgq.stage_1 where attempt = %s", attempts[1])
    assert state(sql, COMMIT, "w", epoch, attempts, 3) == "PQ018"
    sql("truncate pgq.stage_1")
    assert state(sql, COMMIT, "w", epoch, attempts, 3) == "PQ018"
    sql("drop table pgq.stage_1")
    assert state(sql, COMMIT, "w", epoch, attempts, 3) == "PQ018"
    assert state(sql, COMMIT, "unheard of", epoch, attempts, 3) == "PQ018"
    assert rows(EVENTS) == []
    assert rows("select * from pgq.ledger") == []


def test_the_epoch_can_be_written_again_after_its_stage_was_lost(stage, sql, rows):
    lost = stage("w", 1, "a")
    sql("truncate pgq.stage_1")
    assert state(sql, COMMIT, "w", 1, [lost], 1) == "PQ018"
    assert sql(COMMIT, "w", 1, [stage("w", 1, "a")], 1) == 1
    assert rows(EVENTS) == [("t", "a", None)]


def test_of_two_who_commit_one_epoch_at_once_one_wins(stage, sql, rows, connect):
    one, other = stage("w", 1, "one"), stage("w", 1, "other")
    results = []
    first, second = connect(autocommit=False), connect()
    first.execute(COMMIT, ("w", 1, [one], 1))

    def rival() -> None:
        results.extend(second.execute(COMMIT, ("w", 1, [other], 1)).fetchall())

    thread = threading.Thread(target=rival)
    thread.start()
    eventually(lambda: sql("select count(*) from pg_locks where not granted") == 1)
    first.commit()
    thread.join()
    assert results == [(0,)]
    assert rows(EVENTS) == [("t", "one", None)]


def test_the_second_wins_if_the_first_rolls_back(stage, sql, rows, connect):
    one, other = stage("w", 1, "one"), stage("w", 1, "other")
    first = connect(autocommit=False)
    first.execute(COMMIT, ("w", 1, [one], 1))
    first.rollback()
    assert sql(COMMIT, "w", 1, [other], 1) == 1
    assert rows(EVENTS) == [("t", "other", None)]


def test_commit_with_an_old_snapshot_fails_and_says_nothing_twice(stage, sql, rows, connect):
    attempt = stage("w", 1, "a")
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1 from pgq.queue")
    assert sql(COMMIT, "w", 1, [attempt], 1) == 1
    with pytest.raises(psycopg.errors.SerializationFailure):
        old.execute(COMMIT, ("w", 1, [attempt], 1))
    assert rows(EVENTS) == [("t", "a", None)]


def test_a_disabled_queue_refuses_and_takes_the_epoch_later(stage, sql, rows):
    attempt = stage("w", 1, "a")
    sql("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    assert state(sql, "select pgq.open_stage('q', 'w', 1)") == "PQ006"
    assert state(sql, COMMIT, "w", 1, [attempt], 1) == "PQ006"
    sql("select pgq.set_queue_config('q', 'disable_insert', 'false')")
    assert sql(COMMIT, "w", 1, [attempt], 1) == 1
    sql("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    assert sql(COMMIT, "w", 1, [attempt], 1) == 0, "it is done, whatever the queue takes now"


def test_the_limit_of_a_transaction_counts_for_a_commit(stage, sql, rows):
    sql("select pgq.set_queue_config('q', 'per_tx_limit', '2')")
    attempts = [stage("w", 1, "a", "b"), stage("w", 1, "c")]
    assert state(sql, COMMIT, "w", 1, attempts, 3) == "PQ007"
    assert rows(EVENTS) == []
    assert sql(COMMIT, "w", 1, attempts[:1], 2) == 1


def test_a_crash_empties_the_stage_and_the_commit_notices(own_server, connect):
    from pgqpy.install import install

    connection = connect(own_server.dsn())
    install(connection)
    connection.execute("select pgq.create_queue('q')")
    attempt = uuid4()
    connection.execute("select pgq.open_stage('q', 'w', 1)")
    insert = "insert into pgq.stage_1 (attempt, piece, ev_types) values (%s, 1, '{t}')"
    connection.execute(insert, [attempt])
    own_server.stop("immediate")
    own_server.start()
    connection = connect(own_server.dsn())
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(COMMIT, ("w", 1, [attempt], 1))
    assert caught.value.sqlstate == "PQ018"
    assert connection.execute("select pgq.open_stage('q', 'w', 1)").fetchone() == ("pgq.stage_1",)
    connection.execute(insert, [attempt])
    assert connection.execute(COMMIT, ("w", 1, [attempt], 1)).fetchone() == (1,)
