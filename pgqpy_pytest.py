"""The plugin of pytest: fixtures for an application's tests, see docs/testing.md.

pytest imports it in each run, of any project, so it imports pgqpy only where a fixture is used.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pgqpy

INI = "pgqpy_test_dsn"
FAST = {"fsync": "off", "shared_buffers": "16MB"}  # a crash may lose all


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for pytest.ini and pyproject.toml."""
    parser.addini(INI, "A database of the server that pgqpy's fixtures use.  [default: a new one]")


@pytest.fixture(scope="session")
def pgq_server(pytestconfig: pytest.Config) -> Iterator[str]:
    """Run a server, unless PGQPY_TEST_DSN or pgqpy_test_dsn names one; return a DSN of it."""
    if dsn := os.environ.get("PGQPY_TEST_DSN") or pytestconfig.getini(INI):
        from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415  # see above

        named: dict[str, Any] = conninfo_to_dict(dsn)
        password = named.pop("password", None)
        with pytest.MonkeyPatch.context() as patch:
            if password:  # pytest prints the DSN of a test that fails
                patch.setenv("PGPASSWORD", password)
                dsn = make_conninfo(**named)
            yield dsn
        return
    from pgqpy.testing import embedded_server  # noqa: PLC0415  # see above

    with embedded_server(settings=FAST) as server:
        yield server.dsn()


@pytest.fixture(scope="session")
def _pgq_template(pgq_server: str) -> Iterator[str]:
    from pgqpy.testing import new_database  # noqa: PLC0415  # see above

    with new_database(pgq_server) as name:
        yield name


@pytest.fixture
def pgq_database(pgq_server: str, _pgq_template: str) -> Iterator[str]:
    """Make a database for this test alone, with the schema pgq, and return its DSN."""
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415  # see above

    from pgqpy.testing import new_database  # noqa: PLC0415  # see above

    with new_database(pgq_server, _pgq_template) as name:
        yield make_conninfo(pgq_server, dbname=name)


@pytest.fixture
def pgq_queue(pgq_database: str) -> Iterator[Callable[..., pgqpy.Client]]:
    """Return a function that makes a queue and registers plain consumers; it returns a client.

    `client = pgq_queue("orders", "billing")`
    """
    import pgqpy  # noqa: PLC0415  # see above

    with pgqpy.connect(pgq_database) as client:

        def make(queue: str, *consumers: str) -> pgqpy.Client:
            client.create_queue(queue)
            for consumer in consumers:
                client.register_consumer(queue, consumer)
            return client

        yield make


@pytest.fixture
def emitted(pgq_database: str) -> Callable[..., list[Any]]:
    """Return a function that lists inserted events: `emitted("orders")`, `emitted(Placed)`."""
    from pgqpy import testing  # noqa: PLC0415  # see above

    return partial(testing.emitted, pgq_database)
