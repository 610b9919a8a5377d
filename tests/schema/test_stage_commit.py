"""Committing stages: all events of an epoch at once, and once."""

from __future__ import annotations

import psycopg
import pytest

from tests.schema.statements import COMMIT, INSERT, OPEN, state

STAGES = "select * from pgq.get_tick_stages('q', %s, %s)"
TICK = "select tick_id from pgq.tick_queue('q')"
HASHED = "select pgq.commit_stage('q', %s, %s, %s, %s, %s)"
BATCH = "select ev_data, ev_txid from pgq.get_batch_events(%s)"


def test_stages_of_a_range_are_listed_with_estimates_of_their_events(stage, sql, rows):
    one, other, late = stage("w", 1, "a", "b"), stage("w", 1, "c"), stage("v", 1, "d")
    txids = dict(rows("select stage_id, stage_txid from pgq.stage"))
    first = sql(TICK)
    giver = sql("select txid_current() from pgq.commit_stage('q', 'w', 1, %s, 4)", [one, other])
    sql(COMMIT, "w", 2, [], 0)
    second = sql(TICK)
    sql(COMMIT, "v", 1, [late], 1)
    assert rows(STAGES, first, second) == [
        (one, txids[one], giver, 2),
        (other, txids[other], giver, 2),
    ]
    assert rows(STAGES, first, first) == []
    assert state(sql, STAGES, first, second + 1) == "PQ005"
    assert state(sql, "select pgq.get_tick_stages('nope', 1, 2)") == "PQ001"


def test_a_negative_number_of_events_is_refused(stage, sql):
    one = stage("w", 1, "a")
    assert state(sql, COMMIT, "w", 1, [one], -1) == "PQ009"
    assert sql(COMMIT, "w", 1, [one], 1) == 1


def test_an_epoch_is_committed_once(stage, sql, given):
    one = stage("w", 5, "a")
    assert sql(COMMIT, "w", 5, [one], 1) == 1
    assert sql(COMMIT, "w", 5, [one], 1) == 0
    assert sql(COMMIT, "w", 4, [one], 1) == 0
    assert sql(OPEN, "w", 5) is None
    assert sql(OPEN, "w", 4) is None
    assert sql(OPEN, "w", 9) is not None, "epochs may be left out"
    assert given() == ["a"]


def test_epoch_repeated_with_other_events_is_refused(stage, sql, given):
    one, other = stage("w", 5, "a"), stage("w", 5, "b")
    assert sql(HASHED, "w", 5, [one], 1, 17) == 1
    assert sql(HASHED, "w", 5, [one], 1, 17) == 0
    assert sql(COMMIT, "w", 5, [other], 1) == 0, "who gives no fingerprint is told as ever"
    assert state(sql, HASHED, "w", 5, [other], 1, -17) == "PQ019"
    assert sql(HASHED, "w", 6, [stage("w", 6, "c")], 1, 18) == 1
    assert state(sql, HASHED, "w", 5, [one], 1, 17) == "PQ019", "the writer went back"
    assert sql(COMMIT, "w", 7, [stage("w", 7, "d")], 1) == 1
    assert sql(HASHED, "w", 7, [], 0, 19) == 0, "nothing to compare with"
    assert given() == ["a", "c", "d"]


def test_an_epoch_may_be_empty(queue, sql, given):
    assert sql(COMMIT, "w", 5, [], 0) == 1
    assert sql(OPEN, "w", 5) is None
    assert given() == []


@pytest.mark.parametrize("epoch", [1, None])
def test_commit_with_one_stage_that_does_not_wait_commits_none(stage, sql, rows, epoch):
    good, of_another = stage("w", epoch, "a"), stage("v", epoch, "b")
    of_another_epoch, given_up = stage("w", 9, "c"), stage("w", epoch, "d")
    sql("update pgq.stage set stage_released_by = 0 where stage_id = %s", given_up)
    for other in (of_another, of_another_epoch, given_up, 1, 2**62):
        assert state(sql, COMMIT, "w", epoch, [good, other], 2) == "PQ018"
    assert rows("table pgq.ledger") == []
    for unclear in ([good, good], [good, None]):
        assert state(sql, COMMIT, "w", epoch, unclear, 1) == "PQ009"
    assert sql(COMMIT, "w", epoch, [good], 1) == 1


def test_stages_cannot_be_committed_twice(stage, sql, given):
    one = stage("w", 1, "a")
    assert sql(COMMIT, "w", 1, [one], 1) == 1
    sql("delete from pgq.ledger")
    assert state(sql, COMMIT, "w", 1, [one], 1) == "PQ018"
    assert given() == ["a"]


def test_commit_with_a_snapshot_older_than_the_stages_fails(stage, given, connect):
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1 from pgq.queue")
    one = stage("w", 1, "a")
    with pytest.raises(psycopg.errors.SerializationFailure, match="snapshot"):
        old.execute(COMMIT, ("w", 1, [one], 1))
    old.rollback()
    old.execute(COMMIT, ("w", 1, [one], 1))
    old.commit()
    assert given() == ["a"]


def test_disabled_queue_refuses_a_commit_and_accepts_it_later(stage, sql, given):
    one = stage("w", 1, "a")
    sql("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    assert state(sql, OPEN, "w", 1) == "PQ006"
    assert state(sql, COMMIT, "w", 1, [one], 1) == "PQ006"
    sql("select pgq.set_queue_config('q', 'disable_insert', 'false')")
    assert sql(COMMIT, "w", 1, [one], 1) == 1
    sql("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    assert sql(COMMIT, "w", 1, [one], 1) == 0, "it is done, whatever the queue takes now"
    assert given() == ["a"]


def test_the_limit_of_a_transaction_counts_for_a_commit(stage, sql, given):
    sql("select pgq.set_queue_config('q', 'per_tx_limit', '2')")
    stages = [stage("w", 1, "a", "b"), stage("w", 1, "c")]
    assert state(sql, COMMIT, "w", 1, stages, 3) == "PQ007"
    assert given() == []
    assert sql(COMMIT, "w", 1, stages[:1], 2) == 1
    assert given() == ["a", "b"]


def test_stage_survives_a_crash_of_the_server(own_server, connect):
    from pgqpy.install import install

    connection = connect(own_server.dsn())
    install(connection)
    connection.execute("select pgq.create_queue('q')")
    connection.execute("select pgq.register_consumer('q', 'c')")
    with connection.transaction():
        opened = connection.execute(OPEN, ("w", 1)).fetchone()
        connection.execute(INSERT, ["a"])
    own_server.stop("immediate")
    own_server.start()
    connection = connect(own_server.dsn())
    assert connection.execute(COMMIT, ("w", 1, [*opened], 1)).fetchone() == (1,)
    connection.execute("select pgq.tick_queue('q')")
    found = "select ev_data from pgq.next_batch('q', 'c') b, pgq.get_batch_events(b)"
    assert connection.execute(found).fetchall() == [("a",)]
