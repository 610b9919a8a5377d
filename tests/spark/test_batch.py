"""A batch read, called as Spark calls it: which ticks, which types."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest
from pyspark.sql.datasource import InputPartition

from pgqpy.errors import InvalidArgument, QueueNotFound, RangeExpired, SchemaMissing
from pgqpy.spark.data_source import PgqDataSource
from tests.spark.feed import datas, read


def hours_ago(hours):
    return datetime.now(timezone.utc) - timedelta(hours=hours)


@pytest.fixture
def history(feed, client):
    """Ticks 1 to 4, three hours ago to now, with an event before each."""
    for data in "abc":
        feed.insert(data)
    age = "update pgq.tick set tick_time = now() - interval '1 hour' * (4 - tick_id)"
    client.connection.execute(age)
    return feed


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "abc"),
        ({"startingOffsets": {"orders": 2}}, "bc"),
        ({"endingOffsets": {"orders": 3}}, "ab"),
        ({"startingOffsets": {"orders": 2}, "endingOffsets": {"orders": 3}}, "b"),
        ({"startingOffsets": {"orders": 3}, "endingOffsets": "latest"}, "c"),
        ({"startingOffsets": "earliest", "endingOffsets": {"orders": 2}}, "a"),
        ({"startingOffsets": {"orders": 2}, "endingOffsets": {"orders": 2}}, ""),
    ],
)
def test_a_range_of_ticks(history, options, wanted):
    assert datas(read(history.batch(**options))) == list(wanted)


def test_ranges_that_meet_at_a_moment_share_no_event_and_miss_none(history):
    moments = [hours_ago(hours).isoformat() for hours in (9, 2.5, 1.5, 0.5)]
    found = [
        datas(read(history.batch(startingTimestamp=start, endingTimestamp=end)))
        for start, end in pairwise(moments)
    ]
    assert found == [[], ["a"], ["b"]]
    assert datas(read(history.batch(startingTimestamp=moments[-1]))) == ["c"]
    whole = history.batch(startingTimestamp=moments[0], endingTimestamp=moments[-1])
    assert datas(read(whole)) == ["a", "b"]


def test_a_moment_before_what_rotation_left_is_an_error(feed, client, caplog):
    feed.insert("a")
    feed.rotate()
    feed.insert("b")
    long_ago = hours_ago(24).isoformat()
    with pytest.raises(
        RangeExpired, match=r"startingTimestamp: .* is older than the events that rotation kept"
    ):
        feed.batch(startingTimestamp=long_ago).partitions()
    lenient = feed.batch(startingTimestamp=long_ago, failOnDataLoss="false")
    assert datas(read(lenient)) == ["b"]
    assert "as failOnDataLoss is false" in caplog.text


def test_an_end_before_the_start_names_both_options(history):
    with pytest.raises(InvalidArgument) as caught:
        history.batch(
            startingOffsets={"orders": 3}, endingTimestamp=hours_ago(2.5).isoformat()
        ).partitions()
    assert "startingOffsets and endingTimestamp" in str(caught.value)


def test_what_spark_makes_of_no_partitions_is_read_as_nothing(feed):
    reader = feed.batch()
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_types_are_chosen_by_the_server(feed):
    for kind in ("order.new", "order.paid", "invoice", "it's", "orders", None):
        feed.insert(str(kind), type=kind)
    for types, found in (
        ("order.*, it's", ["it's", "order.new", "order.paid"]),
        ("invoice", ["invoice"]),
        ("none", []),
        ("*", ["None", "invoice", "it's", "order.new", "order.paid", "orders"]),
    ):
        assert sorted(datas(read(feed.batch(types=types, minPartitions=3)))) == found


def test_the_real_extension_is_refused(extension_dsn):
    source = PgqDataSource({"dsn": extension_dsn, "queue": "orders"})
    with pytest.raises(SchemaMissing, match="the extension pgq in this database lacks"):
        source.schema()


def test_a_queue_without_ticks_needs_a_ticker(feed, client):
    client.connection.execute("delete from pgq.tick")
    with pytest.raises(QueueNotFound, match="start pgqpy ticker run"):
        feed.batch()
