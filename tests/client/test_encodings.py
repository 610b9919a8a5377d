"""Text that a connection or a database cannot hold is refused by name, or converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgqpy import Client
from pgqpy.errors import ConnectionFailed, InvalidArgument, InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Callable


NOT_UTF8 = "select pgq.insert_event('orders', 'test', convert_from('\\x41ff'::bytea, 'SQL_ASCII'))"


def refused(caught: pytest.ExceptionInfo[Any], encoding: str, character: str) -> None:
    message = str(caught.value)
    assert f"{character!r} (U+{ord(character):04X})" in message
    assert f"the encoding {encoding} of this database lacks" in message


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
