"""Stages: opening and dropping them, and their maintenance."""

from __future__ import annotations

import pytest

from tests.schema.statements import COMMIT, GIVEN, GIVEN_UP, INSERT, OPEN, STATES, WAITING, state

AGE = "update pgq.stage set stage_time = now() - %s::interval where stage_writer = %s"


def test_writer_without_epochs_cannot_write_again(stage, sql, given):
    only = stage("w", None, "a")
    assert sql(COMMIT, "w", None, [only], 1) == 1
    assert sql(OPEN, "w", None) is None
    assert sql(COMMIT, "w", None, [only], 1) == 0
    assert sql(COMMIT, "w", 7, [only], 1) == 0
    assert given() == ["a"]


def test_all_that_a_transaction_inserts_is_in_its_stage(queue, connection, sql, given):
    with connection.transaction():
        sql(INSERT, "before")
        opened = sql(OPEN, "w", 1)
        with connection.cursor().copy("copy pgq.event_1_0 (ev_type, ev_data) from stdin") as copy:
            copy.write_row(("t", "copied"))
        sql("select pgq.insert_events('q', '{t}', '{after}')")
        assert sql(OPEN, "w", 1) == opened, "asked twice, one stage"
    assert given() == []
    assert sql(COMMIT, "w", 1, [opened], 3) == 1
    assert given() == ["before", "copied", "after"]


def test_transaction_is_at_most_one_stage_of_a_queue(queue, connection, sql, rows):
    sql("select pgq.create_queue('r')")
    with connection.transaction():
        assert None not in (sql(OPEN, "w", 1), sql("select pgq.open_stage('r', 'other', null)"))
        for other in (("w", 2), ("w", None), ("v", 1)):
            with (
                pytest.raises(Exception, match="stage of something else"),
                connection.transaction(),
            ):
                sql(OPEN, *other)
    assert rows(STATES) == [("other", None, WAITING), ("w", 1, WAITING)]


def test_stage_that_was_rolled_back_does_not_exist(queue, connection, sql, rows, given):
    with connection.transaction():
        with connection.transaction(force_rollback=True):
            sql(OPEN, "w", 1)
        sql(INSERT, "of an ordinary transaction")
    assert rows(STATES) == []
    assert given() == ["of an ordinary transaction"]


def test_events_of_a_dropped_stage_are_never_delivered(stage, sql, rows, given):
    lost = [stage("w", 1, "a"), stage("w", 1, "b")]
    stage("v", 1, "c")
    assert sql("select pgq.drop_stage('q', 'w')") == 2
    assert sql("select pgq.drop_stage('q', 'w')") == 0
    assert sql("select pgq.drop_stage('nope', 'w')") == 0
    assert rows(STATES) == [("v", 1, WAITING), ("w", 1, GIVEN_UP), ("w", 1, GIVEN_UP)]
    assert state(sql, COMMIT, "w", 1, lost, 2) == "PQ018"
    assert given() == []


def test_maintenance_drops_stages_of_writers_silent_for_a_day(stage, sql, rows):
    for writer, age in (("old", "25 hours"), ("young", "23 hours")):
        stage(writer, 1, "a")
        sql(AGE, age, writer)
    assert sql("select pgq.maint_stages()") == 0
    assert rows(STATES) == [("old", 1, GIVEN_UP), ("young", 1, WAITING)]


@pytest.mark.parametrize("epoch", [1, None])
def test_maintenance_keeps_old_stages_of_an_active_writer(stage, sql, rows, epoch):
    first = stage("w", epoch, "a")
    sql(AGE, "25 hours", "w")
    second = stage("w", epoch, "b")
    stage("w", 9, "c")
    sql("select pgq.maint_stages()")
    assert sql(COMMIT, "w", epoch, [first, second], 2) == 1


@pytest.mark.parametrize(("epoch", "next_one"), [(1, 2), (None, None)])
def test_maintenance_drops_stages_of_committed_epochs(stage, sql, rows, epoch, next_one):
    stage("w", epoch, "of a task that failed later")
    sql(COMMIT, "w", epoch, [stage("w", epoch, "good")], 1)
    if next_one:
        stage("w", next_one, "of the next epoch")
    sql("select pgq.maint_stages()")
    states = [("w", epoch, GIVEN_UP), ("w", epoch, GIVEN)]
    assert rows(STATES) == states + ([("w", 2, WAITING)] if next_one else [])


def test_maintenance_deletes_stages_when_their_events_are_gone(stage, sql, rows):
    stage("gone", 1, "a")
    sql("select pgq.drop_stage('q', 'gone')")
    sql("truncate pgq.event_1_0")
    sql(COMMIT, "there", 1, [stage("there", 1, "b")], 1)
    stage("waits", 1)
    sql("select pgq.maint_stages()")
    assert rows(STATES) == [("there", 1, GIVEN), ("waits", 1, WAITING)]
    sql("truncate pgq.event_1_0")
    sql("update pgq.queue set queue_low_tick = tick_id from pgq.tick_queue('q')")  # as rotation
    sql("select pgq.maint_stages()")
    assert rows(STATES) == [("waits", 1, WAITING)]


def test_maintenance_deletes_silent_writers(stage, sql, rows):
    for writer, epoch in (("stream", 1), ("once", None)):
        sql(COMMIT, writer, epoch, [stage(writer, epoch, "a")], 1)
    for age, left in (("23 hours", ["once", "stream"]), ("25 hours", ["stream"]), ("91 days", [])):
        sql("update pgq.ledger set ledger_time = now() - %s::interval", age)
        sql("select pgq.maint_stages()")
        assert [name for (name,) in rows("select ledger_writer from pgq.ledger order by 1")] == left


def test_dropping_a_queue_deletes_its_ledger_and_stages(stage, sql, rows):
    sql(COMMIT, "w", 7, [stage("w", 7, "a")], 1)
    stage("w", 8, "b")
    sql("select pgq.drop_queue('q', true)")
    assert rows("table pgq.ledger") == rows("table pgq.stage") == []
    sql("select pgq.create_queue('q')")
    assert sql(OPEN, "w", 1) is not None, "a new queue, a new ledger"


WRONG = [
    ("select pgq.open_stage('nope', 'w', 1)", "PQ001"),
    ("select pgq.open_stage(null, 'w', 1)", "PQ009"),
    ("select pgq.open_stage('q', null, 1)", "PQ009"),
    ("select pgq.open_stage('q', '', 1)", "PQ009"),
    ("select pgq.open_stage('q', repeat('x', 201), 1)", "PQ009"),
    ("select pgq.commit_stage('nope', 'w', 1, '{}', 0)", "PQ001"),
    ("select pgq.commit_stage('q', 'w', 1, null, 0)", "PQ009"),
    ("select pgq.commit_stage('q', 'w', 1, '{}', null)", "PQ009"),
    ("select pgq.commit_stage('q', null, 1, '{}', 0)", "PQ009"),
]


def test_wrong_arguments_are_refused(queue, sql):
    for statement, code in WRONG:
        assert state(sql, statement) == code, statement


def test_pgq_writer_stages_and_commits_and_reads_no_events(queue, connection, sql):
    sql("set role pgq_writer")
    with connection.transaction():
        opened = sql(OPEN, "w", 1)
        sql(INSERT, "a")
    for statement in ("table pgq.stage", "delete from pgq.stage", "table pgq.ledger"):
        assert state(sql, statement) == "42501"
    assert sql(COMMIT, "w", 1, [opened], 1) == 1
    assert sql("select pgq.drop_stage('q', 'w')") == 0
    sql("set role pgq_reader")
    assert state(sql, OPEN, "w", 2) == "42501"
    sql("set role pgq_ticker")
    assert sql("select pgq.maint_stages()") == 0
    assert state(sql, OPEN, "w", 2) == "42501"
