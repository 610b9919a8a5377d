"""Only a large event is blamed for a limit of PostgreSQL; other errors stay what they are."""

from __future__ import annotations

import psycopg
import pytest

import pgqpy
from pgqpy.calls import read
from pgqpy.client import unreadable
from pgqpy.errors import InvalidEvent

LIMIT_REACHED = """
    create or replace function pgq.get_batch_events(
        x_batch_id bigint, out ev_id bigint, out ev_time timestamptz, out ev_txid bigint,
        out ev_retry int, out ev_type text, out ev_data text, out ev_extra1 text,
        out ev_extra2 text, out ev_extra3 text, out ev_extra4 text)
    returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$ begin
        if current_query() not like '%octet_length%' then
            raise program_limit_exceeded using message = 'another limit';
        end if;
        return query execute pgq.batch_event_sql(x_batch_id);
    end $$"""


def test_an_error_of_another_limit_stays_what_it_is(
    client: pgqpy.Client, connection: psycopg.Connection[object], new_orders: str
) -> None:
    client.insert_event(new_orders, "test", "x")
    client.tick_queue(new_orders)
    batch = client.next_batch(new_orders, "billing")
    assert batch is not None
    connection.execute(LIMIT_REACHED.encode())
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="another limit"):
        list(client.get_batch_events(batch))
    client.finish_batch(batch)


def test_only_an_event_of_256_megabytes_or_more_can_be_too_large() -> None:
    events = read.of_batch(7)
    assert unreadable.too_large(events, (3, None)) is None
    assert unreadable.too_large(events, (3, (256 << 20) - 1)) is None
    found = unreadable.too_large(events, (3, 256 << 20))
    assert isinstance(found, InvalidEvent)
    assert (found.batch_id, found.event_id, found.sqlstate) == (7, 3, "54000")
