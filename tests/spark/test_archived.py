"""A batch read with the option `archive`: the archive's files, then the queue, as one range."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pgqpy.archive import ArchiveDamaged, ArchiveMismatch, spool
from pgqpy.archive.run import ArchiveOptions, run_archive
from pgqpy.archive.store import Store
from pgqpy.errors import InvalidArgument, RangeExpired
from pgqpy.spark.source.archived import ArchivePartition
from tests.spark.feed import read, rows_of

TYPE = ("ev_type",)


def datas(rows):
    return sorted(row["ev_data"] for row in rows)


def without_tick(rows):
    return sorted(tuple(sorted(row.items() - {("tick_id", row["tick_id"])})) for row in rows)


class Lake:
    """The queue, and its archive in a folder."""

    def __init__(self, feed, location):
        self.feed, self.location = feed, location

    def archive(self, **options):
        wanted = ArchiveOptions("orders", **options)
        return run_archive(wanted, Store(self.location), self.feed.dsn, lambda text: None)

    def batch(self, **options):
        return self.feed.batch(archive=self.location, **options)

    def files(self):
        return sorted(Path(self.location).rglob("*.parquet"), key=lambda path: path.stat().st_mtime)


@pytest.fixture
def lake(feed, tmp_path):
    return Lake(feed, str(tmp_path / "lake"))


@pytest.fixture
def history(lake, client):
    """Ticks 1 to 7, an hour apart, with an event before each; a to d are archived."""
    for data in "abcd":
        lake.feed.insert(data, type=data)
    lake.archive(max_events=1)
    for data in "ef":
        lake.feed.insert(data, type=data)
    return lake


RANGES = [
    {},
    {"startingTick": 2},
    {"endingTick": 3},
    {"startingTick": 2, "endingTick": 4},
    {"startingTick": 2, "endingTick": 6},
    {"startingTick": 5},
    {"startingTick": 6, "endingTick": 7},
    {"startingTick": 3, "endingTick": 3},
    {"types": "a,e"},
    {"types": "b*,f*", "minPartitions": 5},
    {"minPartitions": 9},
]


@pytest.mark.parametrize("options", RANGES)
def test_a_range_is_what_the_queue_alone_would_give(history, options):
    live = read(history.feed.batch(**options))
    joined = history.batch(**options)
    assert read(joined) == live, "with the same ticks: none was thinned"


def test_what_rotation_took_comes_from_the_archive(history):
    live = read(history.batch())
    assert datas(live) == list("abcdef")
    history.archive()
    history.feed.rotate()
    assert history.feed.batch().partitions() == []
    assert without_tick(read(history.batch())) == without_tick(live)
    history.feed.insert("g", type="g")
    assert datas(read(history.batch())) == list("abcdefg")
    assert datas(read(history.batch(startingTick=4))) == list("defg")
    assert datas(read(history.batch(startingTick=4, endingTick=6))) == list("de")
    assert datas(read(history.batch(types="b,g"))) == ["b", "g"]


def test_columns_are_those_that_are_asked_for(history):
    schema = StructType([StructField("ev_data", StringType()), StructField("tick_id", LongType())])
    live = read(history.feed.batch(schema))
    assert read(history.feed.batch(schema, archive=history.location)) == live
    assert live[0] == {"ev_data": "a", "tick_id": 2}


def test_times_that_meet_share_no_event_and_miss_none(history, client):
    age = "update {} set tick_time = '2026-01-01 12:00+00'::timestamptz + tick_id * interval '1 h'"
    for path in history.files():
        path.unlink()
    client.unregister_consumer("orders", "archive")
    client.connection.execute(age.format("pgq.tick"))
    history.archive(max_events=1)
    history.feed.rotate()
    history.feed.insert("g")
    moments = [f"2026-01-01T{hour}:30:00Z" for hour in (11, 13, 14, 16, 18, 20)]
    found = [
        datas(read(history.batch(startingTimestamp=start, endingTimestamp=end)))
        for start, end in pairwise(moments)
    ]
    assert found == [[], ["a"], ["b", "c"], ["d", "e"], ["f"]]
    assert datas(read(history.batch(startingTimestamp=moments[-2]))) == ["f", "g"]
    history.files()[0].unlink()
    with pytest.raises(RangeExpired, match="the archive of queue 'orders' begins at tick 2"):
        history.batch(startingTimestamp=moments[0]).partitions()
    with pytest.raises(RangeExpired, match="begins at tick 2"):
        history.batch(startingTick=1).partitions()
    lenient = history.batch(startingTick=1, failOnDataLoss="false")
    assert datas(read(lenient)) == list("bcdefg")
    assert datas(read(history.batch())) == list("bcdefg")


def test_what_expired_in_the_archive_comes_from_the_queue(history):
    history.files()[0].unlink()
    assert datas(read(history.batch())) == list("abcdef")
    assert datas(read(history.batch(startingTick=1, endingTick=2))) == ["a"]


def test_events_that_neither_has_are_an_error(history, client, caplog):
    client.unregister_consumer("orders", "archive")
    history.feed.rotate()
    history.feed.insert("g")
    with pytest.raises(RangeExpired, match="events after tick 5 of queue 'orders'"):
        history.batch().partitions()
    assert datas(read(history.batch(endingTick=4))) == list("abc")
    assert datas(read(history.batch(failOnDataLoss="false"))) == list("abcdg")
    assert "Passing over the events" in caplog.text


def test_a_seam_that_was_thinned_doubles_no_event(lake, client):
    for data in "ab":
        lake.feed.insert(data)
    lake.archive()
    lake.feed.insert("c")
    client.unregister_consumer("orders", "archive")
    client.connection.execute("delete from pgq.tick where tick_id = 3")
    assert datas(read(lake.batch())) == list("abc")


def test_a_large_file_is_read_by_many_tasks(lake, monkeypatch):
    monkeypatch.setattr(spool, "GROUP_ROWS", 1)
    monkeypatch.setattr("pgqpy.archive.spool.LIST_ROWS", 1)
    lake.feed.insert(*(str(number) for number in range(10)))
    lake.archive()
    parts = lake.batch(minPartitions=3).partitions()
    assert len(parts) == 3
    assert all(isinstance(part, ArchivePartition) for part in parts)
    reader = lake.batch(minPartitions=3)
    sizes = [len(rows_of(reader, [part])) for part in parts]
    assert sizes == [4, 3, 3]
    monkeypatch.setattr(
        "pgqpy.spark.source.archived.FILE_BYTES", lake.files()[0].stat().st_size // 2
    )
    assert len(lake.batch().partitions()) > 1
    assert datas(read(lake.batch())) == sorted(str(number) for number in range(10))


def test_a_file_that_expires_between_plan_and_read_is_an_error(history):
    reader = history.batch()
    parts = reader.partitions()
    history.files()[0].unlink()
    with pytest.raises(ArchiveDamaged, match="has expired since it was listed"):
        rows_of(reader, parts)


def test_what_spark_makes_of_no_partitions_is_read_as_nothing(history):
    assert list(history.batch().read(InputPartition(None))) == []


def test_wrong_locations_and_streams_are_refused(feed, tmp_path):
    with pytest.raises(ArchiveMismatch, match="holds no archive of queue 'orders'"):
        feed.batch(archive=str(tmp_path)).partitions()
    with pytest.raises(InvalidArgument, match="option archive is for batch reads"):
        feed.stream(archive=str(tmp_path))


def test_wrong_types_are_refused_though_the_archive_would_do(history):
    with pytest.raises(InvalidArgument, match="may only end a type"):
        history.batch(types="a*b", endingTick=2).partitions()


def test_times_that_spark_lacks_are_the_same_from_both(lake, client):
    raw = "select pgq.insert_event_raw('orders', %s, %s, null, 3, 't', 'd', null, '', 'x', 'y')"
    for number, time in enumerate(("infinity", "-infinity", "0044-03-15 BC", "294276-12-31"), 1):
        client.connection.execute(raw, [number, time])
    lake.feed.tick()
    live = read(lake.feed.batch(schema=StructType([StructField("ev_id", LongType())])))
    assert len(live) == 4
    parts = lake.feed.batch()
    expected = [batch for part in parts.partitions() for batch in parts.read(part)]
    lake.archive()
    joined = lake.batch()
    found = [batch for part in joined.partitions() for batch in joined.read(part)]
    counts = [batch["ev_time"].cast("int64").to_pylist() for batch in (*expected, *found)]
    assert sorted(counts[0]) == sorted(counts[1])
