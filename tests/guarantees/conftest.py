"""The database of a guarantee's test."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import ROTATES, Database
from tests.support.databases import new_database, queue_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server


@pytest.fixture(scope="session")
def _queue_template(server: Server, template: str) -> Iterator[str]:
    with queue_template(server, template, "q", "c", **ROTATES) as name:
        yield name


@pytest.fixture
def db(server: Server, template: str, _queue_template: str) -> Iterator[Database]:
    """A fresh database with sessions to interleave.

    A test that begins with `db.queue()` gets a database that has the queue already.
    """
    with ExitStack() as stack:

        def make(with_queue: bool) -> str:
            source = _queue_template if with_queue else template
            return server.dsn(stack.enter_context(new_database(server, source)))

        database = Database(make)
        stack.callback(database.close)
        yield database
