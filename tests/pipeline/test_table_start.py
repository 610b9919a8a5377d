"""Where a pipeline into a table begins: at the table's offset, if the queue still has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.pipeline.lake import OffsetRefused, starting_offsets
from pgqpy.pipeline.options import PipelineOptions
from pgqpy.spark.options import Offset

if TYPE_CHECKING:
    from tests.spark.feed import Feed

OPTIONS = PipelineOptions(queue="orders", starting_offsets="earliest")
AGAIN = "another --consumer, and say with --starting-offsets"


def offset(feed: Feed, of: int, **other: Any) -> dict[int, Offset]:
    """Return the offset of a tick of queue orders, as the source made it, by queue id."""
    row = feed.client.connection.execute(
        """select queue_id, to_char(tick_time at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
             from pgq.queue join pgq.tick on tick_queue = queue_id
            where queue_name = 'orders' and tick_id = %s""",
        [of],
    ).fetchone()
    assert row is not None
    found = Offset("pipeline", row[0], of, row[1])._replace(**other)
    return {found.queue_id: found}


def test_it_begins_at_the_offset_of_the_table_and_else_where_the_user_says(feed: Feed) -> None:
    tick = feed.tick()
    at = offset(feed, tick)
    assert starting_offsets(feed.client, OPTIONS, at) == json.dumps({"orders": tick})
    assert starting_offsets(feed.client, OPTIONS, {}) == "earliest"


def test_a_queue_that_was_dropped_is_left_out_and_one_that_is_not_listed_is_refused(
    feed: Feed,
) -> None:
    options = PipelineOptions(queue="orders,refunds")
    feed.client.create_queue("refunds")
    tick = feed.tick()
    at = offset(feed, tick) | offset(feed, tick, queue_id=4711)
    assert starting_offsets(feed.client, options, at) == json.dumps({"orders": tick})
    feed.client.create_queue("returns")
    row = feed.client.connection.execute(
        "select queue_id from pgq.queue where queue_name = 'returns'"
    ).fetchone()
    assert row is not None
    at = offset(feed, tick) | offset(feed, tick, queue_id=row[0])
    with pytest.raises(OffsetRefused, match="of queue 'returns'"):
        starting_offsets(feed.client, options, at)


def test_a_table_of_another_queue_is_refused(feed: Feed) -> None:
    at = offset(feed, feed.tick(), queue_id=4711)
    with pytest.raises(OffsetRefused, match=f"of a queue that was dropped since: .*{AGAIN}"):
        starting_offsets(feed.client, OPTIONS, at)


def test_a_restored_database_is_refused_with_the_tick_to_go_on_from(feed: Feed) -> None:
    first = feed.tick()
    feed.client.register_consumer("orders", "pipeline")
    second = feed.tick()
    lost = offset(feed, second, time="2100-01-01T00:00:00.000000Z")
    for at in (lost, offset(feed, second, tick=second + 5)):
        with pytest.raises(OffsetRefused, match=f'lost this tick.*{{"orders": {first}}}'):
            starting_offsets(feed.client, OPTIONS, at)


def test_an_offset_whose_events_were_rotated_away_is_refused(feed: Feed) -> None:
    feed.insert("x")
    at = offset(feed, feed.tick())
    feed.tick()
    feed.rotate()
    with pytest.raises(OffsetRefused, match="does not keep its events from there on"):
        starting_offsets(feed.client, OPTIONS, at)
