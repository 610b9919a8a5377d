"""An event whose time Python cannot express stops no consumer."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from tests.client.conftest import open_batch

if TYPE_CHECKING:
    from pgqpy import Client

EARLIEST = datetime.min.replace(tzinfo=timezone.utc)
LATEST = datetime.max.replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("time", "read"),
    [
        ("infinity", LATEST),
        ("294276-01-01", LATEST),
        ("-infinity", EARLIEST),
        ("0044-03-15 BC", EARLIEST),
    ],
)
def test_event_of_a_writers_odd_time_is_read_by_every_way(
    queue: Client, time: str, read: datetime
) -> None:
    connection = queue.connection
    connection.execute("set role pgq_writer")
    connection.execute(
        "insert into pgq.event_1_0 (ev_time, ev_type, ev_data) values (%s, 't', 'odd')", [time]
    )
    connection.execute("reset role")
    batch = open_batch(queue, ("t", "plain"))
    for size in (1, 2, 5):
        odd, plain = queue.get_batch_events(batch, fetch_size=size)
        assert (odd.data, odd.time, plain.data) == ("odd", read, "plain")
        assert plain.time.year == datetime.now(timezone.utc).year
    odd, plain = queue.get_tick_events("orders", batch.prev_tick_id, batch.tick_id)
    assert (odd.time, plain.data) == (read, "plain")


def test_dead_event_with_an_odd_time_is_listed(queue: Client) -> None:
    queue.connection.execute(
        "insert into pgq.event_1_0 (ev_time, ev_type, ev_data) values ('infinity', 't', 'odd')"
    )
    batch = open_batch(queue)
    queue.event_dead(batch, [(event, "no") for event in queue.get_batch_events(batch)])
    (dead,) = queue.get_dead_events("orders", "billing")
    assert (dead.ev_data, dead.ev_time) == ("odd", LATEST)
