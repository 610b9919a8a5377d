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


def offset(feed: Feed, of: int, **other: Any) -> Offset:
    """Return the offset of a tick, as the source made it."""
    row = feed.client.connection.execute(
        """select queue_id, to_char(tick_time at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
             from pgq.queue join pgq.tick on tick_queue = queue_id where tick_id = %s""",
        [of],
    ).fetchone()
    assert row is not None
    return Offset("pipeline", row[0], of, row[1])._replace(**other)


def test_it_begins_at_the_offset_of_the_table_and_else_where_the_user_says(feed: Feed) -> None:
    at = offset(feed, feed.tick())
    assert starting_offsets(feed.client, OPTIONS, at) == json.dumps({"tick": at.tick})
    assert starting_offsets(feed.client, OPTIONS, None) == "earliest"


def test_a_table_of_another_queue_is_refused(feed: Feed) -> None:
    at = offset(feed, feed.tick(), queue_id=4711)
    with pytest.raises(OffsetRefused, match=f"of another queue than 'orders'.*{AGAIN}"):
        starting_offsets(feed.client, OPTIONS, at)


def test_a_restored_database_is_refused_with_the_tick_to_go_on_from(feed: Feed) -> None:
    first = feed.tick()
    feed.client.register_consumer("orders", "pipeline")
    second = feed.tick()
    lost = offset(feed, second, time="2100-01-01T00:00:00.000000Z")
    for at in (lost, offset(feed, second, tick=second + 5)):
        with pytest.raises(OffsetRefused, match=f'lost this tick.*{{"tick": {first}}}'):
            starting_offsets(feed.client, OPTIONS, at)


def test_an_offset_whose_events_were_rotated_away_is_refused(feed: Feed) -> None:
    feed.insert("x")
    at = offset(feed, feed.tick())
    feed.tick()
    feed.rotate()
    with pytest.raises(OffsetRefused, match="does not keep its events from there on"):
        starting_offsets(feed.client, OPTIONS, at)
