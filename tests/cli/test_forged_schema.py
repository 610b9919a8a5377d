"""No tool calls a function of a schema pgq that a stranger made, whatever its own rights are."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from click.testing import Result
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import install
from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.pipeline.progress import QueueMonitor
from pgqpy.sandbox.database import Contents, prepared
from pgqpy.spark.connections import Database, connect_planner
from pgqpy.spark.source.read_task import open_with_retries
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


@pytest.mark.parametrize("there", [True, False])
def test_status_of_a_schema_that_comes_and_goes(
    dsn: str, connection: Connection, *, there: bool
) -> None:
    """The owners that it looks at are those of the schema that it reads."""
    names = itertools.cycle(["hidden to pgq", "pgq to hidden"])

    class Swapping(psycopg.Cursor[Any]):
        """Another session gives the schema its other name before each statement."""

        def execute(self, *args: Any, **keywords: Any) -> Any:
            old, _, new = next(names).split()
            connection.execute(f"alter schema {old} rename to {new}")
            return super().execute(*args, **keywords)

    with psycopg.connect(dsn, autocommit=True, cursor_factory=Swapping) as swapped:
        connection.execute("alter schema pgq rename to hidden")
        try:
            if not there:
                swapped.execute("select 1")
            found = install.status(swapped)
        finally:
            connection.execute(
                "do $$ begin if to_regnamespace('hidden') is not null then"
                " alter schema hidden rename to pgq; end if; end $$"
            )
    assert found.state == ("untrusted" if there else "missing")
    assert found.installed is None


@pytest.mark.parametrize(
    "command",
    [
        "schema repair",
        "queue list",
        "queue show orders",
        "queue create orders",
        "queue set orders ticker_paused=true",
        "queue drop orders --force",
        "consumer list",
        "consumer show orders billing",
        "consumer register orders billing",
        "consumer unregister orders billing",
        "event insert orders test data",
        "event list orders",
        "event list orders dead billing",
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


@pytest.mark.parametrize(
    "keywords",
    [
        {"user": "pgqpy_test_ticker"},
        {"options": "-crole=pgq_admin"},
        {"user": "pgqpy_test_ticker", "options": "-crole=pgq_ticker"},
    ],
    ids=["login", "superuser with a role", "login with a role"],
)
def test_a_command_of_anybody_else(
    run: Run, dsn: str, connection: Connection, before: int, keywords: dict[str, str]
) -> None:
    connection.execute("create role pgqpy_test_ticker login in role pgq_ticker")
    try:
        place = make_conninfo(dsn, **keywords)
        assert failed_with(run("--dsn", place, "queue", "list"), 1, *REFUSED)
    finally:
        connection.execute("drop role pgqpy_test_ticker")
    assert trapped(connection) == before


class Plain(Consumer):
    queue, name = "orders", "billing"

    def process_event(self, event: pgqpy.Event) -> None: ...


class Async(AsyncConsumer):
    queue, name = "orders", "billing"

    async def process_event(self, event: pgqpy.Event) -> None: ...


@pytest.mark.parametrize(
    "start",
    [
        lambda dsn: Plain(dsn).run(),
        lambda dsn: asyncio.run(Async(dsn).run()),
        lambda dsn: connect_planner(Database(dsn), "orders"),
        lambda dsn: open_with_retries(Database(dsn), "orders"),
        lambda dsn: QueueMonitor(dsn, "orders").check(),
        lambda dsn: prepared(dsn, Contents("simulate", "orders"), print).__enter__(),
    ],
    ids=["consumer", "async consumer", "spark", "task of spark", "pipeline", "simulation"],
)
def test_what_runs_for_long(
    dsn: str, connection: Connection, before: int, start: Callable[[str], Any]
) -> None:
    with pytest.raises(pgqpy.SchemaRefused, match="drop the schema") as caught:
        start(dsn)
    assert (caught.value.object, caught.value.owner) == ("schema pgq", FORGER)
    assert trapped(connection) == before
