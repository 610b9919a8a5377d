"""Row-level security that the owner forces on its own tables: an error, never a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from pgqpy import install
from pgqpy.errors import SchemaRefused
from tests.install.support import Connection, works

if TYPE_CHECKING:
    from collections.abc import Callable

FORCE = """
    do $$ begin
        execute string_agg(format('alter table %s enable row level security;'
            'alter table %s force row level security', oid::regclass, oid::regclass), ';')
           from pg_class where relnamespace = 'pgq'::regnamespace and relkind = 'r';
    end $$"""
CALLS = [
    "pgq.next_batch('q', 'c')",
    "pgq.get_batch_events(1)",
    "pgq.finish_batch(1)",
    "pgq.event_retry(1, 1, 0)",
    "pgq.take_part('q', 'c', '1')",
    "pgq.receive('q', 'c', 1, '1 minute')",
    "pgq.get_tick_events('q', 1, 2)",
    "pgq.get_queue_info()",
    "pgq.get_consumer_info()",
    "pgq.ticker_due()",
    "pgq.tick_queue('q')",
    "pgq.maint_operations()",
    "pgq.maint_retry_events()",
    "pgq.maint_rotate_tables_step1('q')",
    "pgq.maint_ticks('q')",
    "pgq.maint_positions()",
    "pgq.unregister_consumer('q', 'c')",
    "pgq.drop_queue('q')",
    "pgq.repair_queue('q')",
]


@pytest.fixture
def owner(make_owner: Callable[[str], Connection]) -> Connection:
    """The owner of an engine, no superuser, whose tables hide all their rows."""
    connection = make_owner("createrole")
    install.install(connection)
    assert works(connection)
    connection.execute(FORCE.encode())
    return connection


def test_a_row_that_is_hidden_from_the_owner_is_an_error(
    owner: Connection, subtests: pytest.Subtests
) -> None:
    hidden = pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security")
    for call in CALLS:
        with subtests.test(call), hidden:
            owner.execute(f"select * from {call}".encode())
    owner.execute("set row_security = on")
    with pytest.raises(SchemaRefused, match="row-level security"):
        install.uninstall(owner)
    owner.execute("alter table pgq.queue no force row level security")
    assert owner.execute("select queue_name from pgq.queue").fetchall() == [("q",)]
