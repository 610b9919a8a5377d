"""Fixtures: a server for the run, a database for each test, connections that get closed."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support import debian
from tests.support.databases import (
    QUEUE_IS_NEW,
    kept_session,
    new_database,
    queue_template,
    template_database,
)
from tests.support.groups import pytest_collection_modifyitems, pytest_xdist_make_scheduler
from tests.support.processes import PythonProcess
from tests.support.servers import SETTINGS, chosen_server, other_programs, private_server
from tests.support.spark import session, start_spark_quickly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    import pgqpy
    from pgqpy.testing import EmbeddedServer
    from tests.support.servers import Server

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_xdist_make_scheduler",
]  # pytest finds hooks by their names here


def pytest_configure() -> None:
    """Prepare the environment that child processes inherit."""
    # A shell that starts the tests in its background ignores SIGINT for all of them; nohup ignores
    # SIGHUP.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            normal = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, normal)
    start_spark_quickly()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of this run (PGQPY_TEST_DSN, PGQPY_TEST_PG: see tests/support/servers.py).

    Each xdist process has its own: a transaction that one test holds open holds the snapshots of
    all databases of a server back, and another test would wait for a rotation in vain.
    """
    with chosen_server() as server, kept_session(server):
        yield server


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[str]:
    """The name of a database with the schema installed, to clone from: never connect to it."""
    with template_database(server) as name:
        yield name


@pytest.fixture(scope="session")
def orders_template(server: Server, template: str) -> Iterator[str]:
    """The name of a database with a queue `orders` and its consumer `billing`, to clone from."""
    with queue_template(server, template, "orders", "billing") as name:
        yield name


@pytest.fixture
def dsn(request: pytest.FixtureRequest, server: Server, template: str) -> Iterator[str]:
    """A fresh database with the schema, and with what the fixture `new_orders` promises."""
    wanted = "new_orders" in request.fixturenames
    source = request.getfixturevalue("orders_template") if wanted else template
    with new_database(server, source) as name:
        yield server.dsn(name)


@pytest.fixture
def new_orders(request: pytest.FixtureRequest) -> str:
    """The name of a queue `orders`, just made, with the consumer `billing`."""
    if "client" in request.fixturenames:  # a session less
        request.getfixturevalue("client").connection.execute(QUEUE_IS_NEW)
    else:
        request.getfixturevalue("connection").execute(QUEUE_IS_NEW)
    return "orders"


@pytest.fixture
def billing_is_shared(new_orders: str, connection: psycopg.Connection[Any]) -> None:
    """Make the consumer `billing` shared."""
    connection.execute("select pgq.set_consumer_mode('orders', 'billing', 'shared')")


@pytest.fixture
def empty_dsn(server: Server) -> Iterator[str]:
    """A fresh database without the schema."""
    with new_database(server) as name:
        yield server.dsn(name)


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """Open one more connection to the test's database: autocommit unless told otherwise.

    `connect()`, `connect(autocommit=False)`, `connect(user="app")`, `connect(dsn=other)`.
    """
    with ExitStack() as stack:

        def opener(dsn: str | None = None, **kwargs: Any) -> psycopg.Connection[Any]:
            place = dsn or request.getfixturevalue("dsn")
            connection = psycopg.connect(place, **{"autocommit": True, **kwargs})
            stack.callback(connection.close)
            return connection

        yield opener


@pytest.fixture
def connection(connect: Callable[..., psycopg.Connection[Any]]) -> psycopg.Connection[Any]:
    """An autocommit connection to the test's database."""
    return connect()


@pytest.fixture
def login(connection: psycopg.Connection[Any]) -> Iterator[Callable[..., str]]:
    """Make a login, once in a test: `login("pgq_reader")` returns its name."""
    name = f"pgqpy_test_login_{os.getpid()}"  # roles belong to the whole cluster

    def maker(*roles: str) -> str:
        connection.execute(f"create role {name} login".encode())
        for role in roles:
            connection.execute(f"grant {role} to {name}".encode())
        return name

    yield maker
    for statement in ("drop owned by {0}", "drop role {0}"):
        connection.execute(statement.format(name).encode())


@pytest.fixture
def client(dsn: str) -> Iterator[pgqpy.Client]:
    """A client of the test's database, with a connection of its own."""
    import pgqpy  # tests of the bare engine do without the client

    with pgqpy.connect(dsn) as client:
        yield client


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A private, durable server to crash: stop("immediate"), SIGKILL, start(). No schema yet."""
    with private_server(SETTINGS, other_programs(), tcp=True) as server:
        yield server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of Spark for all tests that need one: see tests/support/groups.py."""
    with session(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


@pytest.fixture(scope="session")
def _debian() -> Iterator[tuple[EmbeddedServer, str]]:
    if not debian.extension_installed():
        pytest.skip(debian.WHY_SKIPPED)
    with debian.debian_server() as found:
        yield found


@pytest.fixture
def extension_dsn(_debian: tuple[EmbeddedServer, str]) -> Iterator[str]:
    """A fresh database with the extension pgq, on Debian's PostgreSQL 15."""
    server, template = _debian
    with new_database(server, template) as name:
        yield server.dsn(name)


@pytest.fixture
def spawn() -> Iterator[Callable[..., PythonProcess]]:
    """Start `python *args`: `spawn("-m", "pgqpy", "doctor", env={…})`; killed at the end."""
    with ExitStack() as stack:

        def starter(*args: str, **kwargs: Any) -> PythonProcess:
            process = PythonProcess(*args, **kwargs)
            stack.callback(process.close)
            return process

        yield starter
