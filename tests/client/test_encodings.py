"""Text that a connection or a database cannot hold is refused by name, or converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy import Client
from pgqpy.errors import ConnectionFailed, InvalidArgument, InvalidEvent
from tests.support.databases import encoded_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server

NOT_UTF8 = "select pgq.insert_event('orders', 'test', convert_from('\\x41ff'::bytea, 'SQL_ASCII'))"


@pytest.fixture(scope="module", params=[("LATIN1", "€"), ("EUC_JP", "€"), ("WIN1252", "ж")])
def narrow(request: pytest.FixtureRequest, server: Server) -> Iterator[tuple[str, str, str]]:
    """An encoding, a character that it lacks, and a database in it."""
    with encoded_database(server, request.param[0]) as dsn:
        with pgqpy.connect(dsn) as client:
            client.create_queue("orders")
        yield (*request.param, dsn)


@pytest.fixture(scope="module")
def ascii_dsn(server: Server) -> Iterator[str]:
    """A database in SQL_ASCII, which holds whatever it is given, with a queue and a consumer."""
    with encoded_database(server, "SQL_ASCII") as dsn:
        with pgqpy.connect(dsn) as client:
            client.create_queue("orders")
            client.register_consumer("orders", "billing")
        yield dsn


def refused(caught: pytest.ExceptionInfo[Any], encoding: str, character: str) -> None:
    message = str(caught.value)
    assert f"{character!r} (U+{ord(character):04X})" in message
    assert f"the encoding {encoding} of this database lacks" in message


def test_a_character_that_the_database_lacks_is_named_with_its_field(
    narrow: tuple[str, str, str],
) -> None:
    encoding, character, dsn = narrow
    with pgqpy.connect(dsn) as client:
        with pytest.raises(InvalidEvent) as caught:
            client.insert_event("orders", "test", {"price": f"1 {character}"})
        assert caught.value.field == "data"
        refused(caught, encoding, character)
        with pytest.raises(InvalidEvent) as caught:
            client.insert_event("orders", "test", "data", None, None, character)
        assert caught.value.field == "extra3"
        for ask in (client.get_queue_info, lambda queue: [*client.get_tick_events(queue, 1, 2)]):
            with pytest.raises(InvalidArgument) as wrong:
                ask(character)
            assert wrong.value.parameter == "queue"
            refused(wrong, encoding, character)
        with pytest.raises(InvalidArgument) as wrong:
            client.get_dead_events("orders", "billing", error=character)
        assert wrong.value.parameter == "error"
        refused(wrong, encoding, character)
        assert client.insert_event("orders", "test", "ä")


@pytest.mark.parametrize("returning_ids", [False, True], ids=["copy", "ids"])
@pytest.mark.parametrize("before", ["plain", "with\ttabs\nand lines"])
def test_it_is_named_with_its_event_in_a_load_and_nothing_is_inserted(
    narrow: tuple[str, str, str], before: str, returning_ids: bool
) -> None:
    encoding, character, dsn = narrow
    events = [("test", before)] * 3 + [("test", "ä", character), ("test", character)]
    with pgqpy.connect(dsn) as client, client.transaction():
        with pytest.raises(InvalidEvent) as caught:
            client.insert_events("orders", events, returning_ids=returning_ids)
        assert (caught.value.index, caught.value.field) == (3, "extra1")
        refused(caught, encoding, character)
        assert client.insert_events("orders", events[:3]) == 3


def test_what_the_connection_lacks_is_named_with_its_encoding(
    queue: Client, connect: Callable[..., Any]
) -> None:
    rider = Client(connect(client_encoding="latin1"))
    with pytest.raises(
        InvalidEvent, match="client_encoding LATIN1 lacks: set client_enc"
    ) as caught:
        rider.insert_event("orders", "test", "€")
    assert caught.value.field == "data"
    queue.insert_event("orders", "test", "€")
    queue.tick_queue("orders")
    batch = rider.next_batch("orders", "billing")
    assert batch is not None
    ticks = ("orders", batch.prev_tick_id, batch.tick_id)
    for fetch_size in (1000, 1):
        with pytest.raises(ConnectionFailed, match="set client_encoding to 'UTF8'") as wrong:
            list(rider.get_batch_events(batch, fetch_size=fetch_size))
        assert wrong.value.batch_id == batch.id
        with pytest.raises(ConnectionFailed, match="set client_encoding to 'UTF8'") as wrong:
            list(rider.get_tick_events(*ticks, fetch_size=fetch_size))
        assert wrong.value.queue == "orders"
    with pytest.raises(InvalidArgument, match="client_encoding LATIN1 lacks") as refused:
        list(rider.get_tick_events("€", 1, 2))
    assert refused.value.parameter == "queue"


def test_message_that_the_connection_lacks_is_not_leased_and_its_encoding_is_named(
    queue: Client, connect: Callable[..., Any]
) -> None:
    rider = Client(connect(client_encoding="latin1"))
    queue.register_consumer("orders", "mails")
    queue.insert_event("orders", "test", "€")
    queue.tick_queue("orders")
    with pytest.raises(ConnectionFailed, match="set client_encoding to 'UTF8'") as wrong:
        rider.receive("orders", "mails", wait=0)
    assert (wrong.value.queue, wrong.value.consumer) == ("orders", "mails")
    with pytest.raises(InvalidArgument, match="client_encoding LATIN1 lacks") as refused:
        rider.receive("€", "mails", wait=0)
    assert refused.value.parameter == "queue"
    (message,) = queue.receive("orders", "mails", wait=0)
    assert (message.event.data, message.attempt) == ("€", 1)


def test_a_connection_that_returns_bytes_is_refused_with_what_to_set(
    queue: Client, connect: Callable[..., Any]
) -> None:
    rider = Client(connect(client_encoding="sql_ascii"))
    for call in (
        lambda: rider.next_batch("orders", "billing"),
        lambda: rider.receive("orders", "c"),
    ):
        with pytest.raises(ConnectionFailed, match="set client_encoding to 'UTF8'"):
            call()
    rider.connection.execute("set client_encoding to 'UTF8'")
    assert rider.next_batch("orders", "billing") is None


@pytest.mark.parametrize("fetch_size", [1000, 1])
def test_what_is_no_text_in_a_database_in_sql_ascii_is_named_by_its_event(
    ascii_dsn: str, fetch_size: int
) -> None:
    with pgqpy.connect(ascii_dsn) as client:
        client.insert_event("orders", "test", "€")
        client.tick_queue("orders")
        batch = client.next_batch("orders", "billing")
        assert batch is not None
        (event,) = client.get_batch_events(batch, fetch_size=fetch_size)
        assert (event.type, event.data) == ("test", "€")
        client.finish_batch(batch)
        client.insert_event("orders", "test", "€")
        row = client.connection.execute(NOT_UTF8).fetchone()
        client.tick_queue("orders")
        batch = client.next_batch("orders", "billing")
        assert batch is not None
        with pytest.raises(InvalidEvent, match="data is not UTF-8 at byte 1") as caught:
            list(client.get_batch_events(batch, fetch_size=fetch_size))
        assert (caught.value.event_id,) == row
        assert (caught.value.batch_id, caught.value.field) == (batch.id, "data")
        ticks = ("orders", batch.prev_tick_id, batch.tick_id)
        with pytest.raises(InvalidEvent, match="of queue 'orders': its data is not") as caught:
            list(client.get_tick_events(*ticks, fetch_size=fetch_size))
        assert (caught.value.event_id,) == row
        assert (caught.value.queue, caught.value.field) == ("orders", "data")
        client.finish_batch(batch)


def test_message_that_is_no_text_is_named_and_nothing_is_leased(ascii_dsn: str) -> None:
    with pgqpy.connect(ascii_dsn) as client, pgqpy.connect(ascii_dsn) as other:
        client.create_queue("letters")
        client.register_consumer("letters", "mails")
        client.insert_event("letters", "test", "€")
        row = client.connection.execute(NOT_UTF8.replace("orders", "letters")).fetchone()
        client.tick_queue("letters")
        for _ in range(2):
            with pytest.raises(InvalidEvent, match="'letters': its data is not UTF") as caught:
                client.receive("letters", "mails", wait=0)
            assert (caught.value.event_id,) == row
            assert (caught.value.queue, caught.value.field) == ("letters", "data")
        (message,) = other.receive("letters", "mails", limit=1, wait=0)
        assert (message.event.data, message.attempt) == ("€", 1)
        message.done()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("create_queue({})", "queue name"),
        ("register_consumer('orders', {})", "consumer name"),
        ("add_cron({}, 'orders', 't', '', '@hourly')", "cron entry name"),
        ("add_cron('daily', 'orders', {}, '', '@hourly')", "cron entry"),
        ("set_consumer_filter('orders', 'billing', jsonb_build_object('types', {}))", "filter"),
        ("begin_change({})", "change"),
        ("end_change(1, {})", "outcome"),
    ],
)
def test_text_that_all_clients_read_is_refused_if_it_is_no_utf8(
    ascii_dsn: str, call: str, what: str
) -> None:
    text = "convert_from('\\x41ff'::bytea, 'SQL_ASCII')"
    if "jsonb" in call:
        text = f"array[{text}]"
    with pgqpy.connect(ascii_dsn) as client:
        with pytest.raises(psycopg.Error, match=f"the {what} is not valid UTF-8") as caught:
            client.connection.execute(f"select pgq.{call.format(text)}".encode())
        assert caught.value.sqlstate == "PQ009"
        client.create_queue("bücher")
        client.drop_queue("bücher")


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_outcome_of_a_change_is_cut_between_characters(ascii_dsn: str, character: str) -> None:
    outcome = "x" * 999 + character
    with pgqpy.connect(ascii_dsn) as client:
        change = client.begin_change("create queue")
        assert client.end_change(change, outcome) == 1
        assert client.get_changes(1)[0].outcome == "x" * 999
