"""Stages: who makes their tables, who may use them, and when they go."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest

from tests.schema.stages import COMMIT, EVENTS, STAGES, state
from tests.support.waiting import eventually


def test_who_writes_once_leaves_no_table_and_cannot_come_back(stage, sql, rows):
    attempt = stage("w", None, "a")
    assert len(rows(STAGES)) == 1
    assert sql(COMMIT, "w", None, [attempt], 1) == 1
    assert rows(STAGES) == []
    assert sql("select pgq.open_stage('q', 'w', null)") is None
    assert sql(COMMIT, "w", None, [attempt], 1) == 0
    assert sql(COMMIT, "w", 7, [attempt], 1) == 0
    assert rows(EVENTS) == [("t", "a", None)]


def test_the_stage_of_a_stream_is_used_again_and_empty_between_epochs(stage, sql, rows):
    for epoch in (1, 2, 3):
        attempt = stage("w", epoch, "x" * 10_000_000, str(epoch))
        assert sql(COMMIT, "w", epoch, [attempt], 2) == 1
        assert sql("select pg_relation_size('pgq.stage_1')") == 0
        assert rows(STAGES) == [("stage_1",)]
    assert sql("select count(*) from pgq.event_1") == 6


def test_tasks_that_come_at_once_get_one_table(queue, sql, rows, connect):
    ask = "select pgq.open_stage('q', 'w', 1)"
    first, second = connect(autocommit=False), connect()
    found = first.execute(ask).fetchall()
    thread = threading.Thread(target=lambda: found.extend(second.execute(ask).fetchall()))
    thread.start()
    eventually(lambda: sql("select count(*) from pg_locks where not granted") == 1)
    first.commit()
    thread.join()
    assert found == [("pgq.stage_1",)] * 2
    assert rows(STAGES) == [("stage_1",)]


def test_a_task_gets_a_table_also_if_another_dropped_it_meanwhile(queue, sql):
    # As if another task had made the row, and somebody had dropped it before the look at it.
    sql("create sequence public.times")
    sql("""
        create function public.skip_once() returns trigger language plpgsql as $$
            begin return case when nextval('public.times') = 1 then null else new end; end
        $$""")
    sql("""
        create trigger skip_once before insert on pgq.stage
           for each row execute function public.skip_once()""")
    table = sql("select pgq.open_stage('q', 'w', 1)")
    assert table is not None, "null says that the epoch is committed"
    sql(f"insert into {table} (attempt, piece) values (gen_random_uuid(), 1)")


def test_nobody_waits_for_a_task_that_is_not_needed_any_more(stage, sql, rows, connect):
    attempt = stage("w", 1, "a")
    straggler = connect(autocommit=False)
    straggler.execute("insert into pgq.stage_1 (attempt, piece) values (gen_random_uuid(), 1)")
    sql("set statement_timeout = '10s'")
    assert sql(COMMIT, "w", 1, [attempt], 1) == 1
    assert rows(EVENTS) == [("t", "a", None)]
    assert sql("select pgq.open_stage('q', 'w', 2)") == "pgq.stage_2", "it is left to the straggler"
    assert sql("select pgq.maint_stages()") == 0
    assert rows(STAGES) == [("stage_1",), ("stage_2",)]
    straggler.commit()
    sql("select pgq.maint_stages()")
    assert rows(STAGES) == [("stage_2",)]


def test_a_stage_that_will_not_be_committed_is_dropped(stage, sql, rows, connect):
    stage("w", 1, "a")
    assert sql("select pgq.drop_stage('q', 'w')") == 1
    assert sql("select pgq.drop_stage('q', 'w')") == 0
    assert sql("select pgq.drop_stage('nope', 'w')") == 0
    assert rows(STAGES) == []
    stage("w", 1, "a")
    with connect(autocommit=False) as reader:
        reader.execute("select * from pgq.stage_2")
        sql("set statement_timeout = '10s'")
        assert sql("select pgq.drop_stage('q', 'w')") == 1
        assert rows(STAGES) == [("stage_2",)]
    sql("select pgq.maint_stages()")
    assert rows(STAGES) == []


def test_maintenance_drops_stages_that_nobody_opened_for_a_day(stage, sql, rows):
    stage("old", 1, "a")
    stage("in use", 1, "a")
    sql("update pgq.stage set stage_time = now() - interval '25 hours'")
    assert sql("select pgq.open_stage('q', 'in use', 1)") == "pgq.stage_2"
    sql("select pgq.maint_stages()")
    assert rows(STAGES) == [("stage_2",)]
    assert rows("select stage_writer from pgq.stage") == [("in use",)]


def test_maintenance_forgets_writers_after_a_while(stage, sql, rows):
    for writer, epoch in (("stream", 1), ("once", None)):
        sql(COMMIT, writer, epoch, [stage(writer, epoch, "a")], 1)
    for age, left in (("23 hours", ["once", "stream"]), ("25 hours", ["stream"]), ("91 days", [])):
        sql("update pgq.ledger set ledger_time = now() - %s::interval", age)
        sql("select pgq.maint_stages()")
        assert [name for (name,) in rows("select ledger_writer from pgq.ledger order by 1")] == left


def test_a_dropped_queue_takes_ledger_and_stages_with_it(stage, sql, rows):
    sql(COMMIT, "w", 7, [stage("w", 7, "a")], 1)
    sql("select pgq.drop_queue('q', true)")
    assert rows("select * from pgq.ledger") == rows("select * from pgq.stage") == []
    sql("select pgq.maint_stages()")
    assert rows(STAGES) == []
    sql("select pgq.create_queue('q')")
    assert sql("select pgq.open_stage('q', 'w', 1)") is not None, "a new queue, a new ledger"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("select pgq.open_stage('nope', 'w', 1)", "PQ001"),
        ("select pgq.open_stage(null, 'w', 1)", "PQ009"),
        ("select pgq.open_stage('q', null, 1)", "PQ009"),
        ("select pgq.open_stage('q', '', 1)", "PQ009"),
        ("select pgq.open_stage('q', repeat('x', 201), 1)", "PQ009"),
        ("select pgq.commit_stage('nope', 'w', 1, '{}', 0)", "PQ001"),
        ("select pgq.commit_stage('q', 'w', 1, null, 0)", "PQ009"),
        ("select pgq.commit_stage('q', 'w', 1, '{}', null)", "PQ009"),
        ("select pgq.commit_stage('q', null, 1, '{}', 0)", "PQ009"),
    ],
)
def test_wrong_arguments_are_refused(queue, sql, statement, code):
    assert state(sql, statement) == code


def test_a_writer_stages_and_commits_and_reads_nothing(queue, sql):
    attempt = uuid4()
    sql("set role pgq_writer")
    assert sql("select pgq.open_stage('q', 'w', 1)") == "pgq.stage_1"
    sql("insert into pgq.stage_1 (attempt, piece, ev_types) values (%s, 1, '{t}')", attempt)
    for statement in ("select * from pgq.stage_1", "truncate pgq.stage_1", "table pgq.ledger"):
        assert state(sql, statement) == "42501"
    assert sql(COMMIT, "w", 1, [attempt], 1) == 1
    assert sql("select pgq.drop_stage('q', 'w')") == 1
    sql("set role pgq_reader")
    assert state(sql, "select pgq.open_stage('q', 'w', 2)") == "42501"
    sql("set role pgq_ticker")
    assert sql("select pgq.maint_stages()") == 0
    assert state(sql, "select pgq.open_stage('q', 'w', 2)") == "42501"
