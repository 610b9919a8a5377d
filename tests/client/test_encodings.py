"""Text comes and goes in UTF-8; a database or a connection of another encoding is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner

import pgqpy
from pgqpy import Client
from pgqpy.cli.app import app
from pgqpy.client import connect_as_tool
from pgqpy.errors import ConnectionFailed
from tests.cli.support import failed_with
from tests.client.conftest import open_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server


@pytest.fixture
def latin1_dsn(server: Server) -> Iterator[str]:
    name = "pgqpy_latin1"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0")
        try:
            yield server.dsn(name)
        finally:
            admin.execute(f"drop database {name} with (force)")


def test_a_database_of_another_encoding_is_refused(latin1_dsn: str) -> None:
    for connect in (pgqpy.connect, connect_as_tool):
        with pytest.raises(ConnectionFailed, match="LATIN1: move the queue to a database in UTF8"):
            connect(latin1_dsn)
    rider = Client(psycopg.connect(latin1_dsn))
    with pytest.raises(ConnectionFailed, match="encoding of this database is LATIN1"):
        rider.get_queue_info()
    rider.connection.close()


def test_a_database_of_another_encoding_is_no_wrong_use_of_the_command(latin1_dsn: str) -> None:
    result = CliRunner().invoke(app, ["--dsn", latin1_dsn, "queue", "list"])
    assert failed_with(result, 1, "LATIN1", "move the queue to a database in UTF8")
    assert "--help" not in result.stderr


CALLS: list[Callable[..., Any]] = [
    lambda rider, _batch: rider.next_batch("orders", "billing"),
    lambda rider, batch: list(rider.get_batch_events(batch)),
    lambda rider, _batch: rider.insert_events("orders", [("t", "d")]),
    lambda rider, _batch: rider.receive("orders", "c"),
]


@pytest.mark.parametrize("encoding", ["latin1", "sql_ascii"])
def test_a_connection_of_another_encoding_is_refused_with_what_to_set(
    queue: Client, connect: Callable[..., Any], encoding: str
) -> None:
    batch = open_batch(queue, ("test", "€"))
    rider = Client(connect(client_encoding=encoding))
    for call in CALLS:
        with pytest.raises(ConnectionFailed, match=r"client_encoding is .*: set it to 'UTF8'"):
            call(rider, batch)
    rider.connection.execute("set client_encoding to 'UTF8'")
    assert rider.next_batch("orders", "billing") == batch
