"""An event that PostgreSQL cannot send is an InvalidEvent: a new connection is no help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pgqpy
from tests.client.conftest import open_batch
from tests.support.sqlstates import refused

if TYPE_CHECKING:
    import psycopg

LIMIT_REACHED = """
    create or replace function pgq.batch_event_sql(x_batch_id bigint)
    returns text language plpgsql as $$ begin
        raise program_limit_exceeded using message = 'out of memory';
    end $$"""


@pytest.mark.parametrize(
    ("fetch_size", "pages"),
    [(1000, False), (1, False), (1, True)],
    ids=["select", "cursor", "page"],
)
def test_a_row_over_the_limit_of_the_server_says_what_to_do(
    queue: pgqpy.Client,
    connection: psycopg.Connection[object],
    fetch_size: int,
    *,
    pages: bool,
) -> None:
    batch = open_batch(queue, *[("test", "x")] * 3)
    connection.execute(LIMIT_REACHED.encode())
    queue.runner.holds_cursors = not pages  # as behind a pooler in transaction mode
    words = rf"an event of batch {batch.id} is too large to be sent \(out of memory\): find it"
    with refused("54000", match=words) as caught:
        list(queue.get_batch_events(batch, fetch_size=fetch_size))
    assert caught.value.batch_id == batch.id
