"""Functions that others put into a schema of our search_path never run with our rights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from pgqpy.consumers import Consumer, Retry, TransactionalConsumer
from tests.cli.support import Connection, Run
from tests.cli.test_help import COMMANDS
from tests.support.databases import new_database
from tests.support.hostile import lay_trap, trapped
from tests.support.servers import Server


@pytest.fixture(scope="module")
def module_dsn(server: Server, template: str) -> Iterator[str]:
    """A database with a queue, in which every new session looks into the hostile schema first."""
    with new_database(server, template) as name:
        dsn = server.dsn(name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            client = pgqpy.Client(connection)
            client.create_queue("orders")
            client.register_consumer("orders", "billing")
            for table in ("public.mine", "public.other"):
                connection.execute(f"create table {table} (id int primary key)".encode())
                client.call(calls.capture.add_capture("orders", table))
            lay_trap(connection)
        yield dsn


@pytest.fixture
def dsn(module_dsn: str) -> str:
    """The module's database, whose queue stays."""
    return module_dsn


@pytest.fixture
def before(connection: Connection) -> int:
    """Return how often the trap was sprung before the test."""
    return trapped(connection)


@pytest.fixture
def _event(dsn: str) -> None:
    """Insert an event for the consumer of the test."""
    with pgqpy.connect(dsn) as client:
        client.register_consumer("orders", "once")
        client.insert_event("orders", "test", "data")
        client.tick_queue("orders")


def test_the_trap_springs_where_a_session_is_not_ours(connection: Connection, before: int) -> None:
    connection.execute("select now() > '2000-01-01' and 1 = length('x')")
    assert trapped(connection) > before + 2


ARGUMENTS = {  # of the commands that need some; they run in alphabetical order
    "archive expire": "memory://hostile --older-than 1d --yes",
    "archive list": "memory://hostile",
    "archive replay": "orders billing --from memory://hostile",
    "archive run": "--queue orders --to memory://hostile",
    "capture add": "public.mine --queue orders",
    "capture ddl": "public.mine",
    "capture remove": "public.other",
    "capture snapshot": "public.mine",
    "consumer register": "orders other",
    "consumer seek": "orders billing beginning",
    "consumer set": "orders billing policy=detach after=2d attached=yes mode=shared key=type",
    "consumer show": "orders billing",
    "consumer unregister": "orders other",
    "event cancel": "orders 1",
    "cron add": "other orders test --schedule @daily",
    "cron remove": "report",
    "cron set": "other paused=true",
    "cron run": "other",
    "event delete": "orders billing --all",
    "event insert": "orders test data",
    "event list": "orders",
    "event retry": "orders billing --all",
    "event show": "orders billing 1",
    "queue create": "other",
    "queue drop": "other --force",
    "queue rename": "orders purchases",
    "queue set": "purchases ticker_max_count=7",
    "queue show": "purchases",
    "schema repair": "purchases",
}
ELSEWHERE = {  # commands that do not end by themselves, take long, or use no database
    "consumer run": "test_a_consumer",
    "dashboard": "tests/dashboard/test_pages.py",
    "demo": "a ticker, a client and a consumer, which have their tests",
    "event schema": "it connects to no database",
    "pipeline clean": "it connects to no database",
    "pipeline run": "tests/pipeline/test_command.py",
    "simulate": "a client and consumers, which have their tests",
    "ticker run": "tests/ticker/test_session.py",
}


def test_no_command_calls_a_function_of_another_schema(
    run: Run, connection: Connection, subtests: Any
) -> None:
    for command in sorted(set(COMMANDS) - set(ELSEWHERE)):
        with subtests.test(command):
            before = trapped(connection)
            result = run(*command.split(), *ARGUMENTS.get(command, "").split())
            assert result.exit_code != 2, result.output
            assert trapped(connection) == before, result.output


@pytest.mark.usefixtures("_event")
def test_an_archive_that_is_read_again(run: Run, connection: Connection) -> None:
    before = trapped(connection)
    for command in (
        "archive run --queue orders --to memory://again --consumer again",
        "event list orders --archive memory://again --since 1h --type t*",
        "archive replay orders billing --from memory://again --since 1h --again",
    ):
        done = run(*command.split())
        assert done.exit_code == 0, done.output
    assert trapped(connection) == before


@pytest.mark.usefixtures("_event")
def test_a_consumer(dsn: str, connection: Connection, before: int) -> None:
    class Once(Consumer):
        queue = "orders"
        name = "once"

        def process_event(self, event: pgqpy.Event) -> None:
            self.stop()

    Once(dsn).run()
    assert trapped(connection) == before


@pytest.mark.usefixtures("_event")
def test_a_consumer_whose_handlers_have_the_search_path_of_the_database(
    dsn: str, connection: Connection, before: int
) -> None:
    paths = []

    class Once(TransactionalConsumer):
        queue = "orders"
        name = "once"

        def process_event(self, event: pgqpy.Event, connection: Connection) -> None:
            paths.append(connection.execute("show search_path").fetchone())
            if len(paths) > 1:  # the second time in a savepoint
                self.stop()
            raise Retry(after=1)

    Once(dsn).run()
    assert paths == [("hostile, pg_catalog, public",)] * 2
    assert trapped(connection) == before


def test_the_calls_of_a_client(dsn: str, connection: Connection, before: int) -> None:
    with pgqpy.connect(dsn) as client:
        client.register_consumer("orders", "client")
        client.insert_event("orders", "test", "data")
        client.insert_events("orders", [("test", "data")] * 3)
        client.insert_events("orders", [("test", "data")], returning_ids=True)
        client.insert_event("orders", "test", "data", dedup_key="k", dedup_for=60)
        client.cancel_event("orders", [client.insert_event("orders", "test", "later", delay=60)])
        client.insert_events("orders", [("test", "later")], delay=60)
        client.call(calls.admin.get_queue_metrics())
        client.tick_queue("orders")
        batch = client.next_batch("orders", "client")
        assert batch is not None
        events = list(client.get_batch_events(batch, fetch_size=2))
        with client.transaction():
            assert list(client.get_batch_events(batch, fetch_size=2)) == events
        client.event_retry(batch, events[0], 1)
        client.call(calls.consume.event_retry_many(batch, [(events[1], 1)]))
        client.event_dead(batch, [(events[2], "reason")])
        client.get_dead_events("orders", "client")
        client.get_consumer_info("orders", "client")
        client.finish_batch(batch)
        client.unregister_consumer("orders", "client")
    assert trapped(connection) == before
