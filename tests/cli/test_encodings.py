"""Characters that the encoding of the database lacks: one line names the argument."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pgqpy
from tests.cli.support import Run, failed_with
from tests.support.databases import encoded_database
from tests.support.servers import Server


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["event", "insert", "orders", "test", "1 €"], "data contains '€'"),
        (["event", "insert", "orders", "€", "data"], "type contains '€'"),
        (["queue", "create", "€"], "queue contains '€'"),
        (["consumer", "show", "orders", "€"], "consumer contains '€'"),
    ],
)
def test_a_character_that_the_database_lacks(
    run: Run, latin1_dsn: str, command: list[str], named: str
) -> None:
    assert failed_with(run(*command, "--dsn", latin1_dsn), 1, named, "encoding LATIN1 of this data")


@pytest.fixture(scope="module")
def latin1_dsn(server: Server) -> Iterator[str]:
    """A database in LATIN1 with a queue."""
    with encoded_database(server, "LATIN1") as found:
        with pgqpy.connect(found) as client:
            client.create_queue("orders")
        yield found
