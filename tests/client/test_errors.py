"""SQLSTATE to class, messages with what to do, data as attributes."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import errors, sqlstates
from pgqpy.errors import PgqError
from pgqpy.sqlstates import BY_SQLSTATE
from tests.client.conftest import open_batch
from tests.client.either import sql
from tests.support.gates import wait_until_blocked
from tests.support.sqlstates import refused

CLASSES = [
    found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, PgqError)
]


OURS = [code for code in BY_SQLSTATE if code.startswith("PQ")]


def raised(connection: psycopg.Connection[Any], code: str, extra: str = "") -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(
            f"do $$ begin raise exception 'the text' using errcode = '{code}'{extra}; end $$"
        )
    return caught.value


def test_every_code_of_ours_has_its_class(connection: psycopg.Connection[Any]) -> None:
    for code in OURS:
        found = sqlstates.from_database(raised(connection, code), "f", {"queue": "orders"})
        assert type(found) is BY_SQLSTATE[code]
        assert found.queue == "orders"
        assert found.sqlstate == code
        assert found.function == "f"
        text = "no queue 'orders' in this database: create it" if code == "PQ001" else "the text"
        assert str(found).startswith(text)


def test_a_missing_consumer_is_named(queue: pgqpy.Client) -> None:
    with pytest.raises(errors.ConsumerNotFound) as caught:
        queue.next_batch("orders", "other")
    words = (
        "consumer 'other' is not registered on queue 'orders': register it with register_consumer"
    )
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "call",
    [
        lambda client, batch: client.event_retry(batch, 1, 1),
        lambda client, batch: list(client.get_batch_events(batch)),
        lambda client, batch: list(client.get_batch_events(batch.id)),  # with a cursor
        lambda client, batch: list(client.get_tick_events("orders", 1, batch.tick_id)),
        lambda client, _batch: client.insert_event("orders", "t", "d"),
        lambda client, _batch: client.insert_events("orders", [("t", "d")]),
    ],
    ids=["retry", "batch", "cursor", "ticks", "insert", "copy"],
)
def test_a_queue_that_is_dropped_during_a_call_is_not_found(
    queue: pgqpy.Client, connection: psycopg.Connection[Any], call: Callable[..., Any]
) -> None:
    batch = open_batch(queue, ("t", "d"))
    with ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute("select pgq.drop_queue('orders', true)")
            late = pool.submit(call, queue, batch)
            wait_until_blocked(connection, queue.connection.info.backend_pid)
        with pytest.raises(pgqpy.QueueNotFound, match="dropped meanwhile"):
            late.result()


def test_a_code_may_say_other_things_to_do_than_its_class(
    connection: psycopg.Connection[Any],
) -> None:
    for code, what_to_do in sqlstates.WHAT_TO_DO.items():
        found = sqlstates.from_database(raised(connection, code), "f", {})
        assert found is not None
        assert found.what_to_do == what_to_do
        assert str(found) == (f"the text: {what_to_do}" if what_to_do else "the text")


def test_detail_and_hint_of_the_server_are_said(connection: psycopg.Connection[Any]) -> None:
    exc = raised(connection, "PQ001", ", detail = 'queue x', hint = 'make it'")
    found = sqlstates.from_database(exc, "f", {})
    assert str(found) == "the text (queue x): make it"
    assert found is not None
    assert found.detail == "queue x"


def test_what_is_not_about_queues_stays_psycopgs(connection: psycopg.Connection[Any]) -> None:
    for code in ("40001", "55P03", "57014", "42501", "22003", "ZZ999"):
        assert sqlstates.from_database(raised(connection, code), "f", {}) is None
    assert sqlstates.from_database(psycopg.OperationalError("lost"), "f", {}) is None


@pytest.mark.parametrize("found", CLASSES)
def test_every_error_has_a_message_can_be_imported_and_crosses_to_another_process(
    found: type[PgqError],
) -> None:
    message = str(found())
    assert message
    assert not any(text in message for text in ("\n", "`", "Data:"))
    sentence = (found.__doc__ or "").partition("\n")[0].partition(". ")[0]
    assert sentence.rstrip(".") in message
    assert getattr(pgqpy, found.__name__) is found
    again = pickle.loads(pickle.dumps(found("text", queue="orders", batch_id=7)))
    assert (type(again), str(again)) == (found, "text")
    assert (again.queue, again.batch_id, again.consumer) == ("orders", 7, None)


async def test_psycopgs_error_is_the_cause(either: Any) -> None:
    with pytest.raises(pgqpy.QueueNotFound) as caught:
        await either.ticker("nope")
    assert isinstance(caught.value.__cause__, psycopg.Error)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("set local role pgq_reader", psycopg.errors.InsufficientPrivilege),
        ("set transaction read only", psycopg.errors.ReadOnlySqlTransaction),
    ],
)
async def test_missing_right_and_read_only_are_psycopgs(
    either: Any, statement: str, error: type[psycopg.Error]
) -> None:
    with pytest.raises(error):
        async with either.transaction():
            await sql(either, statement)
            await either.create_queue("orders")


def test_a_pooler_that_loses_prepared_statements_is_named_with_what_to_do(dsn: str) -> None:
    with pgqpy.connect(dsn, prepare_threshold=0) as client:
        client.get_queue_info()
        client.connection.pgconn.exec_(b"deallocate all")  # as in another session of the server
        with pytest.raises(errors.ConnectionFailed, match="prepare_threshold=None"):
            client.get_queue_info()


LIMIT_REACHED = """
    create or replace function pgq.batch_event_sql(x_batch_id bigint)
    returns text language plpgsql as $$ begin
        raise program_limit_exceeded using message = 'out of memory';
    end $$"""


@pytest.mark.parametrize("fetch_size", [1000, 1], ids=["select", "cursor"])
def test_a_row_over_the_limit_of_the_server_says_what_to_do(
    queue: pgqpy.Client,
    connection: psycopg.Connection[object],
    fetch_size: int,
) -> None:
    batch = open_batch(queue, *[("test", "x")] * 3)
    connection.execute(LIMIT_REACHED.encode())
    words = rf"an event of batch {batch.id} is too large to be sent \(out of memory\): find it"
    with refused("54000", match=words) as caught:
        list(queue.get_batch_events(batch, fetch_size=fetch_size))
    assert caught.value.batch_id == batch.id
