"""Transactional handlers that change the session, end the transaction or move their consumer."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest
from psycopg.errors import ReadOnlySqlTransaction

from pgqpy import AsyncClient, Client
from pgqpy.consumers import (
    AsyncTransactionalConsumer,
    TransactionalConsumer,
)
from pgqpy.consumers._async import consumer as async_consumer
from pgqpy.consumers._async import transactional as async_loop
from pgqpy.consumers._sync import consumer as sync_consumer
from pgqpy.consumers._sync import transactional as sync_loop
from pgqpy.errors import PgqError
from tests.consumers.harness import CONSUMER, NOTE, QUEUE, SESSIONS
from tests.support.waiting import eventually


def test_settings_of_a_handler_do_not_hinder_the_finish(queue, make, effects, connection, login):
    tenant = login()
    connection.execute(f"grant insert on effect to {tenant}")
    connection.execute(f"grant usage on effect_no_seq to {tenant}")

    def handler(event):
        yield f"set local role {tenant}", []
        yield NOTE, [event.data]
        yield "set local statement_timeout = '1s'", []

    running = make.start(handler, transactional=True, part_size=2)
    queue.insert("a", "b", "c")
    queue.deliver("d")
    running.stop()
    assert effects() == ["a", "b", "c", "d"]


TESTS = {"type": ["test"]}
TIMEOUTS = ("statement", "lock", "idle_in_transaction_session", "transaction")


@pytest.mark.parametrize("failing", [[], ["a"]])
def test_timeouts_of_a_handler_end_before_the_next_fetch_or_a_failed_event(
    queue, make, effects, connection, failing
):
    """With a savepoint for each event, they end with their event."""
    known = TIMEOUTS if connection.info.server_version >= 170000 else TIMEOUTS[:-1]
    show = " || ' ' || ".join(f"current_setting('{name}_timeout')" for name in known)

    def handler(event):
        yield f"insert into effect (data) select {show}", []
        for name in known:
            yield f"set local {name}_timeout = '1h'", []
        if event.data in failing:
            raise ValueError("careful from now on")

    make.start(handler, transactional=True, part_size=4 if failing else 1)
    queue.deliver("a", "b", "c")
    assert set(effects()) == {" ".join("0" for _ in known)}


def test_an_event_whose_handler_forbids_writing_is_set_apart(queue, make, effects):
    def handler(event):
        yield NOTE, [event.data]
        if event.data == "b":
            yield "set transaction read only", []

    make.start(handler, transactional=True)
    queue.deliver("a", "b", "c")
    assert effects() == ["a", "c"]
    assert len(queue.retry_delays()) == 1


def test_a_handler_that_forbids_writing_ends_run_with_on_error_stop(queue, make, effects):
    def handler(event):
        yield "set transaction read only", []

    running = make.start(handler, transactional=True, on_error="stop")
    queue.insert("a")
    with pytest.raises(ReadOnlySqlTransaction):
        running.join()


def test_a_batch_whose_handler_forbids_writing_fails_as_a_whole(queue, make_sync, dsn, log):

    class Reading(TransactionalConsumer):
        queue, name = QUEUE, CONSUMER

        def process_batch(self, batch, connection):
            list(batch)
            connection.execute("set transaction read only")

    running = make_sync.run(Reading(dsn))
    queue.insert("a")
    eventually(lambda: "failed and stays unfinished" in log.text)
    assert running.error is None
    assert "lost its connection" not in log.text


def test_an_event_after_which_the_server_ends_the_session_is_set_apart(
    queue, make, effects, connection, monkeypatch
):
    """The handler itself notices nothing: statements of our own fail."""
    for module in (async_consumer, sync_consumer):
        monkeypatch.setattr(module, "RECONNECT_BASE", 0.001)

    def handler(event):
        yield NOTE, [event.data]
        if event.data == "a":
            yield "set local idle_in_transaction_session_timeout = '1ms'", []
            eventually(lambda: not connection.execute(SESSIONS).fetchall())

    make.start(handler, transactional=True)
    queue.deliver("a", "b", "c")
    assert effects() == ["b", "c"]
    assert len(queue.retry_delays()) == 1


def test_a_handler_that_moves_its_own_consumer_is_not_repeated_without_a_pause(
    queue, make, effects, log, monkeypatch
):
    for module in (async_loop, sync_loop):
        monkeypatch.setattr(module, "REPEAT_BASE", 1000.0)
        monkeypatch.setattr(module, "REPEAT_MAX", 1000.0)

    def handler(event):
        yield "select pgq.unregister_consumer(%s, %s)", [QUEUE, CONSUMER]

    running = make.start(handler, transactional=True)
    queue.insert("a")
    eventually(lambda: "not ours any more" in log.text)
    queue.insert(*"bcdefghijkl")  # takes longer than many repetitions
    running.stop()
    assert log.text.count("not ours any more") == 1


@pytest.mark.parametrize("place", [4, 5, 6])  # psycopg prepares what is sent the fifth time
def test_a_swallowed_error_of_a_call_fails_its_own_event_only(
    queue, dsn, make_sync, effects, place
):
    class Swallowing(TransactionalConsumer):
        def process_event(self, event, connection):
            connection.execute(NOTE, [event.data])
            for _ in range(2 * (event.data == str(place))):
                with suppress(PgqError, psycopg.Error):
                    Client(connection).insert_event("nope", "t", "x")

    events = [str(number) for number in range(8)]
    queue.insert(*events)
    make_sync.run(Swallowing(dsn, queue=QUEUE, name=CONSUMER))
    queue.wait_until_finished()
    assert effects() == [event for event in events if event != str(place)]
    assert len(queue.retry_delays()) == 1


def test_a_batch_may_be_passed_to_insert_events_over_its_connection(queue, dsn, make, client):
    class Thread(TransactionalConsumer):
        queue, name, filter = QUEUE, CONSUMER, TESTS

        def process_batch(self, batch, connection):
            Client(connection).insert_events(QUEUE, (("copy", each.data) for each in batch))

    class Task(AsyncTransactionalConsumer):
        queue, name, filter = QUEUE, CONSUMER, TESTS

        async def process_batch(self, batch, connection):
            copies = (("copy", each.data) async for each in batch)
            await AsyncClient(connection).insert_events(QUEUE, copies)

    make.run(Task(dsn) if make.asynchronous else Thread(dsn))
    queue.deliver("a", "b")
    copies = "select ev_data from pgq.event_1 where ev_type = 'copy' order by ev_id"
    assert client.connection.execute(copies).fetchall() == [("a",), ("b",)]
