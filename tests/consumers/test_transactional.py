"""Consumers whose effects are in the queue's database: each happens once (G9)."""

from __future__ import annotations

import pytest

from pgqpy.consumers import Retry, TransactionalConsumer
from tests.consumers.harness import CONSUMER, NOTE, QUEUE
from tests.support.sqlstates import refused
from tests.support.waiting import eventually


def note(event):
    yield NOTE, [event.data]


def test_effects_are_invisible_until_the_batch_is_finished(queue, make, effects):
    seen = []

    def handler(event):
        yield NOTE, [event.data]
        seen.append(effects())

    make.start(handler, transactional=True)
    queue.deliver("a", "b")
    assert seen == [[], []]


@pytest.mark.parametrize("data", ["abc", "ba" * 10])
def test_a_deferred_constraint_fails_its_own_event_only(queue, make, effects, connection, data):
    """However many fail: psycopg prepares statements that come often."""
    connection.execute(
        "create table paid (data text, is_free bool unique deferrable initially deferred);"
        "insert into paid values ('', false)"
    )

    def handler(event):
        yield NOTE, [event.data]
        yield "insert into paid values (%s, case when %s = 'b' then false end)", [event.data] * 2

    make.start(handler, transactional=True, backoff=(1000, 1000))
    queue.deliver(*data)
    assert effects() == [each for each in data if each != "b"]
    assert len(queue.retry_delays()) == data.count("b")


def test_deferred_constraints_stay_deferred_across_events(queue, make, effects, connection):
    connection.execute("create table paid (data text unique deferrable initially deferred)")

    def handler(event):
        if event.data == "bad":
            raise ValueError("so that every event gets a savepoint")
        yield "insert into paid values ('x')", []
        yield "delete from paid where ctid in (select max(ctid) from paid)", []
        yield NOTE, [event.data]

    make.start(handler, transactional=True)
    queue.deliver("a", "bad", "b")
    assert effects() == ["a", "b"]


def test_retry_and_dead_events_are_in_the_same_transaction(queue, client, make, effects):
    def handler(event):
        yield NOTE, [event.data]
        if event.data == "later":
            raise Retry(after=1000)
        if event.data == "never":
            raise ValueError("no")

    make.start(handler, transactional=True, max_retries=0)
    queue.deliver("a", "later", "never")
    assert effects() == ["a"]
    assert len(queue.retry_delays()) == 1
    assert [dead.ev_data for dead in client.get_dead_events(QUEUE, CONSUMER)] == ["never"]


def test_stop_rolls_the_batch_back_and_it_is_delivered_again(queue, make, effects):
    def handler(event):
        running.consumer.stop()
        yield NOTE, [event.data]

    running = make.start(handler, transactional=True)
    queue.insert("a", "b")
    running.join()
    assert effects() == []
    make.start(note, transactional=True)
    queue.wait_until_finished()
    assert effects() == ["a", "b"]


@pytest.mark.parametrize(("bad_before", "raises"), [(False, False), (True, False), (False, True)])
def test_a_handler_that_ends_the_transaction_by_sql_ends_run(
    queue, make, effects, subtests, bad_before, raises
):
    def handler(event):
        if event.data == "bad":
            raise ValueError("so that every event gets a savepoint")
        yield NOTE, [event.data]
        yield statement, None
        if raises:
            raise ValueError("besides")

    queue.insert(*(["bad"] if bad_before else []), "a", "b")
    for statement in ("commit", "rollback", "rollback; begin", "commit; begin"):
        with subtests.test(statement), refused("2D000"):
            make.start(handler, transactional=True).join()


@pytest.mark.parametrize("method", ["commit", "rollback"])
def test_a_handler_that_calls_commit_or_rollback_ends_run(queue, make_sync, dsn, effects, method):
    class Committing(TransactionalConsumer):
        queue, name = QUEUE, CONSUMER

        def process_event(self, event, connection):
            connection.execute(NOTE, [event.data])
            getattr(connection, method)()

    queue.insert("a")
    with refused("2D000"):
        make_sync.run(Committing(dsn)).join()
    assert effects() == []


def test_a_row_factory_set_by_a_handler_breaks_nothing(queue, dsn, make_sync, effects):
    from psycopg.rows import dict_row

    class Rows(TransactionalConsumer):
        queue, name = QUEUE, CONSUMER

        def process_event(self, event, connection):
            connection.row_factory = dict_row
            connection.execute(NOTE, [event.data])

    make_sync.run(Rows(dsn))
    queue.insert("a")
    queue.deliver("b")
    assert effects() == ["a", "b"]


def test_nothing_is_open_while_it_waits(queue, client, make, effects):
    make.start(note, transactional=True)
    queue.deliver("a")
    query = "select state from pg_stat_activity where application_name like 'pgqpy cons%'"
    eventually(lambda: client.connection.execute(query).fetchone() == ("idle",))
