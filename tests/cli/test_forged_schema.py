"""No tool calls a function of a schema pgq that a stranger made, whatever its own rights are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result

import pgqpy
from pgqpy.consumers import Consumer
from pgqpy.pipeline.progress import QueueMonitor
from pgqpy.sandbox import Contents, prepared
from pgqpy.spark.connections import Database, connect
from tests.cli.support import Connection, Run, failed_with
from tests.support.forged import FORGER, forged_database, trapped
from tests.support.servers import Server

REFUSED = (f"the schema pgq belongs to role {FORGER}", "drop the schema")


@pytest.fixture(scope="module")
def module_dsn(server: Server, template: str) -> Iterator[str]:
    """A superuser's DSN of a database with a forged schema; the template has made the roles."""
    with forged_database(server) as dsn:
        yield dsn


@pytest.fixture
def dsn(module_dsn: str) -> str:
    """The module's database, from which nothing can be cleared away."""
    return module_dsn


@pytest.fixture
def before(connection: Connection) -> int:
    """Return how often the forger's functions were called before the test."""
    return trapped(connection)


def test_the_trap_springs_in_a_client_of_an_application(
    dsn: str, connection: Connection, before: int
) -> None:
    with pgqpy.connect(dsn) as client, pytest.raises(pgqpy.PgqError, match="rights of postgres"):
        client.get_queue_info()
    assert trapped(connection) == before + 1


@pytest.mark.parametrize(
    "command",
    [
        "schema repair",
        "queue drop orders --force",
        "event insert orders test data",
    ],
)
def test_a_command_of_a_superuser(
    run: Run, connection: Connection, before: int, command: str
) -> None:
    assert failed_with(run(*command.split()), 1, *REFUSED)
    assert trapped(connection) == before


def test_commands_that_say_more(run: Run, connection: Connection, before: int) -> None:
    def said(result: Result) -> str:
        assert result.exit_code == 1
        return result.output

    for words in REFUSED:
        assert words in said(run("doctor"))
        assert words in said(run("schema", "status"))
        assert words in said(run("ticker", "status"))
    assert "if pgqpy_test_forger installed pgqpy" in said(run("schema", "install"))
    assert "belongs to role" in said(run("schema", "uninstall", "--force"))
    assert trapped(connection) == before


class Plain(Consumer):
    queue, name = "orders", "billing"

    def process_event(self, event: pgqpy.Event) -> None: ...


@pytest.mark.parametrize(
    "start",
    [
        lambda dsn: Plain(dsn).run(),
        lambda dsn: connect(Database(dsn), "orders"),
        lambda dsn: QueueMonitor(dsn, "orders").check(),
        lambda dsn: prepared(dsn, Contents("simulate", "orders"), print).__enter__(),
    ],
    ids=["consumer", "spark", "pipeline", "simulation"],
)
def test_what_runs_for_long(
    dsn: str, connection: Connection, before: int, start: Callable[[str], Any]
) -> None:
    with pytest.raises(pgqpy.SchemaRefused, match="drop the schema") as caught:
        start(dsn)
    assert (caught.value.object, caught.value.owner) == ("schema pgq", FORGER)
    assert trapped(connection) == before
