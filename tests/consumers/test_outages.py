"""Lost connections, dead servers, other processes: the consumer comes back, nothing is lost."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy.consumers import Consumer
from pgqpy.errors import ConnectionFailed, ConsumerNotFound, SchemaMissing, SchemaRefused
from tests.consumers.harness import (
    CONSUMER,
    END,
    QUEUE,
    SESSIONS,
    STATEMENTS,
    Maker,
    Queue,
    installed,
)
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually


def has(log, text, times):
    return log.text.count(text) == times


def test_a_lost_connection_is_made_again_while_it_waits(queue, make, connection, log, polls):
    polls(3600)
    seen = []
    make.start(lambda event: seen.append(event.data))
    queue.insert("a")
    eventually(lambda: seen == ["a"])
    queue.wait_until_finished()
    assert connection.execute(END).fetchall() == [(True,)]
    eventually(lambda: "runs again" in log.text)
    queue.insert("b")
    eventually(lambda: seen == ["a", "b"])
    assert "lost its connection" in log.text


@pytest.mark.parametrize("table", ["installation", "queue"])
def test_a_connection_lost_before_the_first_batch_is_made_again(
    queue, make, connect, connection, log, table
):
    """While it looks at the schema's version, or registers."""
    keeper = connect()
    keeper.execute("begin")
    keeper.execute(f"lock table pgq.{table}")
    seen = []
    running = make.start(lambda event: seen.append(event.data))
    ((pid,),) = eventually(lambda: connection.execute(SESSIONS).fetchall())
    wait_until_blocked(connection, pid)
    connection.execute(END)
    eventually(lambda: "lost its connection" in log.text or not running.thread.is_alive())
    keeper.execute("rollback")
    assert running.error is None
    queue.insert("a")
    eventually(lambda: seen == ["a"])


@pytest.mark.parametrize("transactional", [False, True])
def test_a_connection_lost_in_a_handler_gives_the_batch_again(
    queue, make, connection, transactional
):
    seen = []

    def handler(event):
        seen.append(event.data)
        if seen == ["a", "b"]:
            connection.execute(END)
        return STATEMENTS

    make.start(handler, transactional=transactional)
    queue.deliver("a", "b", "c")
    # A plain handler may begin one more event before the end of the session is noticed.
    assert seen[:-3] in ([["a", "b"]] if transactional else [["a", "b"], ["a", "b", "c"]])
    assert seen[-3:] == ["a", "b", "c"]
    assert queue.retry_delays() == []


def test_a_connection_lost_while_reading_a_large_batch_gives_it_again(queue, make, connection):
    seen = []

    def handler(event):
        seen.append(event.id)
        if len(seen) == 25:
            connection.execute(END)

    make.start(handler, part_size=10)
    queue.fill(50)
    queue.wait_until_finished()
    assert 0 < len(seen) - 50 <= 10, "at most the events of a part"
    assert len(set(seen)) == 50


def test_a_connection_lost_while_process_batch_reads_gives_it_again(
    queue, make_sync, dsn, connection
):
    batches: list[Any] = []

    class Reading(Consumer):
        queue, name, part_size, on_error = QUEUE, CONSUMER, 10, "stop"

        def process_batch(self, batch):
            count = 0
            for _event in batch:
                count += 1
                if count == 5 and not batches:
                    batches.append("lost")
                    connection.execute(END)
            batches.append(count)

    make_sync.run(Reading(dsn))
    queue.fill(50)
    queue.wait_until_finished()
    assert batches[0] == "lost"
    assert batches[-5:] == [10] * 5


def test_a_loss_after_some_work_is_a_new_one_that_needs_no_long_wait(queue, make, connection, log):
    make.start(lambda event: None)
    for losses in range(1, 9):
        queue.deliver("a")
        connection.execute(END)
        eventually(partial(has, log, "runs again", losses))
    delays = [float(delay) for delay in re.findall(r"tries again in ([\d.]+) s", log.text)]
    assert len(delays) == 8
    assert max(delays) <= 0.1  # seconds; the eighth in a row may wait for more than 10


def test_a_consumer_unregistered_during_an_outage_does_not_begin_anew(
    queue, make, client, log, polls
):
    polls(3600)
    running = make.start(lambda event: None)
    eventually(lambda: "runs" in log.text)
    client.unregister_consumer(QUEUE, CONSUMER)
    client.connection.execute(END)
    with pytest.raises(ConsumerNotFound):
        running.join()
    assert client.get_consumer_info(QUEUE) == []


def test_stop_while_the_server_is_down_ends_run(own_server, asynchronous, log):
    dsn = installed(own_server)
    with pgqpy.connect(dsn) as client:
        Queue(client)
    running = Maker(dsn, asynchronous=asynchronous).start(lambda event: None)
    eventually(lambda: "runs" in log.text)
    own_server.stop("fast")
    eventually(lambda: log.text.count("lost its connection") >= 3)
    running.stop()


def test_no_server_at_start_is_told_at_once(make):
    make.dsn = "host=/nowhere dbname=x password=hidden"
    with pytest.raises(ConnectionFailed) as caught:
        make.start(lambda event: None).join()
    assert "hidden" not in str(caught.value)


def test_a_database_without_the_schema_is_told_at_once(empty_dsn, asynchronous):
    maker = Maker(empty_dsn, asynchronous=asynchronous)
    with pytest.raises(SchemaMissing):
        maker.start(lambda event: None).join()


def test_a_database_with_a_newer_schema_is_told_at_once(queue, make, connection):
    connection.execute("update pgq.installation set version = version + 1")
    with pytest.raises(SchemaRefused) as caught:
        make.start(lambda event: None).join()
    assert caught.value.installed == (caught.value.shipped or 0) + 1


def test_timeouts_of_the_role_do_not_end_long_handlers(queue, make, connection, login):
    role = login()
    settings = ["statement_timeout", "lock_timeout", "idle_session_timeout"]
    settings += ["idle_in_transaction_session_timeout"]
    settings += ["transaction_timeout"] if connection.info.server_version >= 170000 else []
    connection.execute(f"alter role {role} superuser")
    for setting in settings:
        connection.execute(f"alter role {role} set {setting} = '200ms'")
    make.dsn = f"{make.dsn} user={role}"
    seen = []

    def handler(event):
        yield "select pg_sleep(0.4)", None
        # Idle in the transaction for as long: until another session has slept.
        connection.execute("select pg_sleep(0.4)")
        seen.append(event.data)
        yield "select 1", None

    running = make.start(handler, transactional=True)
    queue.deliver("a")
    assert seen == ["a"]
    running.stop()


def test_a_consumer_that_may_not_write_says_what_to_do(queue, dsn, make, log):
    make.dsn = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    make.start(lambda event: None)
    eventually(lambda: "alter role … set default_transaction_read_only = off" in log.text)
