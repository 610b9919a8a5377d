"""Transactions of a consumer that collide: its own are repeated, others' are failures."""

from __future__ import annotations

import psycopg
import pytest

from pgqpy.consumers import TransactionalConsumer
from tests.consumers.harness import CONSUMER, NOTE, QUEUE, Running

COLLIDE = "do $$ begin raise exception 'x' using errcode = '40001'; end $$"


def test_serialization_failures_repeat_the_batch_and_many_in_a_row_are_a_warning(
    queue, make, effects, log
):
    calls = []

    def handler(event):
        calls.append(event.data)
        yield NOTE, [event.data]
        if len(calls) < 7:
            yield COLLIDE, []

    make.start(handler, transactional=True)
    queue.deliver("a", "b")
    assert calls == [*"aaaaaaab"]
    assert effects() == ["a", "b"]
    assert queue.retry_delays() == []
    collisions = [each for each in log.records if "collided" in each.message]
    levels = [each.levelname for each in collisions]
    assert levels == ["INFO"] * 5 + ["WARNING"]
    assert "6 times in a row" in collisions[-1].message


def test_a_collision_in_a_savepoint_of_the_handler_repeats_the_batch(queue, effects, dsn):
    calls = []

    class Colliding(TransactionalConsumer):
        queue = QUEUE
        name = CONSUMER
        on_error = "stop"

        def process_event(self, event, connection):
            calls.append(event.data)
            with connection.transaction():
                connection.execute(NOTE, [event.data])
                if len(calls) < 4:
                    connection.execute(COLLIDE)

    consumer = Colliding(dsn)
    running = Running(consumer)
    queue.deliver("a")
    consumer.stop()
    running.join()
    assert calls == ["a"] * 4
    assert effects() == ["a"]
    assert queue.retry_delays() == []


def colliding_elsewhere(other, code):
    """Return a handler that for the event b gets this error over another connection."""

    def handler(event):
        yield NOTE, [event.data]
        if event.data == "b":
            other.execute(f"do $$ begin raise exception 'x' using errcode = '{code}'; end $$")

    return handler


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_collision_over_another_connection_fails_its_own_event_only(
    queue, make, effects, connect, server, caplog, code
):
    other = connect(dsn=server.dsn("postgres"))
    make.start(colliding_elsewhere(other, code), transactional=True)
    queue.deliver("a", "b", "c")
    assert effects() == ["a", "c"]
    assert len(queue.retry_delays()) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_collision_over_another_connection_ends_run_where_an_exception_does(
    queue, make, effects, connect, server
):
    other = connect(dsn=server.dsn("postgres"))
    queue.insert("a", "b")
    with pytest.raises(psycopg.errors.SerializationFailure):
        make.start(colliding_elsewhere(other, "40001"), transactional=True, on_error="stop").join()
    assert effects() == []
