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

# The neighbour's rows are the first in each table and in each index.
LOW_IDS = """
    alter sequence pgq.queue_queue_id_seq minvalue 0 restart 0;
    alter sequence pgq.consumer_co_id_seq minvalue -1 restart -1;
    alter sequence pgq.registration_sub_id_seq minvalue -1 restart -1;
    alter sequence pgq.batch_id_seq minvalue 0 restart 0;
"""


@pytest.fixture(scope="session")
def _alone(server: Server, template: str) -> Iterator[str]:
    with queue_template(server, template, "q", "c", **ROTATES) as name:
        yield name


@pytest.fixture(scope="session")
def _with_neighbour(server: Server, template: str) -> Iterator[str]:
    """Make another queue first: a change or a look that forgets whom it is for meets its rows."""
    with new_database(server, template) as neighbour:
        db = Database(server.dsn(neighbour))
        db.main.run(LOW_IDS)
        db.queue("next", consumers=("c", "d"))
        db.main.insert("the neighbour's", "next")
        for _ in range(9):  # its last tick is beyond those of short tests
            db.main.tick("next")
        db.main.drain("c", "next")
        db.main.next("d", "next")
        db.close()
        with queue_template(server, neighbour, "q", "c", **ROTATES) as name:
            yield name


@pytest.fixture
def db(request: pytest.FixtureRequest, server: Server, template: str) -> Iterator[Database]:
    """A fresh database with sessions to interleave.

    A test that begins with `db.queue()` gets a database that has the queue already, and another
    one, `next`; without that one if it is marked `alone`.
    """
    source = "_alone" if request.node.get_closest_marker("alone") else "_with_neighbour"
    with ExitStack() as stack:

        def make(with_queue: bool) -> str:
            name = request.getfixturevalue(source) if with_queue else template
            return server.dsn(stack.enter_context(new_database(server, name)))

        database = Database(make)
        stack.callback(database.close)
        yield database
