"""What a pipeline writes: every event once, for every reader, whatever happened in between."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

from pgqpy.pipeline.options import PipelineOptions
from pgqpy.pipeline.progress import Counts
from pgqpy.pipeline.query import find_cause
from pgqpy.pipeline.records import EVENT_SCHEMA, read_schema
from pgqpy.pipeline.writer import MicroBatchWriter
from pgqpy.spark.sink.writers import QUERY_ID
from tests.spark.feed import READERS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.feed import Feed

DDL = "n INT NOT NULL"


class Pipeline:
    """A plan and what runs it: in this process, micro-batch by micro-batch."""

    def __init__(self, spark: SparkSession, feed: Feed, folder: Path) -> None:
        self.spark, self.feed, self.folder = spark, feed, folder
        self.wrote: list[Counts] = []
        self.error: Exception | None = None

    def run(self, **options: Any) -> None:
        """Write what is there; fail with the error that ended it, if one did."""
        error = self.fail(**options)
        assert error is None, error

    def fail(self, **options: Any) -> Exception | None:
        """Write what is there, and return the error that ended it, if one did."""
        given = {"queue": "orders", "to": str(self.folder), "schema": DDL, "available_now": True}
        plan = PipelineOptions(**{**given, "starting_offsets": "earliest", **options})
        schema = read_schema(plan.schema) if plan.schema else None
        sink = MicroBatchWriter(plan, schema, self.wrote.append)
        reader = self.spark.readStream.format("pgq").schema(EVENT_SCHEMA)
        events = reader.options(dsn=self.feed.dsn, **plan.source_options()).load()
        writer = events.writeStream.foreachBatch(sink).trigger(**plan.trigger())
        query = writer.option("checkpointLocation", f"{self.folder}/_checkpoint").start()
        error = failure(query)
        return sink.error or error

    def write(self, events: DataFrame, **options: Any) -> None:
        """Write the micro-batch 0 of a query, without a query."""
        plan = PipelineOptions(**{"queue": "orders", "to": str(self.folder), **options})
        schema = read_schema(plan.schema) if plan.schema else None
        context = self.spark.sparkContext
        context.setLocalProperty(QUERY_ID, "3f2a91c0-1111-2222-3333-444455556666")
        try:
            MicroBatchWriter(plan, schema, self.wrote.append)(events, 0)
        finally:
            context.setLocalProperty(QUERY_ID, "")

    def events(self, *datas: str | None) -> DataFrame:
        """Return events with these data; their types are 1, 2 and so on."""
        rows = [(n, None, str(n), data, *[None] * 4) for n, data in enumerate(datas, 1)]
        return self.spark.createDataFrame(rows, EVENT_SCHEMA)

    def rows(self, *columns: str, folder: str = "") -> list[tuple[Any, ...]]:
        """Read the files as somebody without Spark does."""
        lake = ds.dataset(self.folder / folder, format="parquet", partitioning="hive")
        return sorted(tuple(row.values()) for row in lake.to_table([*columns]).to_pylist())

    def forget_commit(self) -> None:
        """Do as if the driver had been killed after a micro-batch and before Spark noted it."""
        commits = self.folder / "_checkpoint" / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdigit()), key=number)
        last.unlink()
        (commits / f".{last.name}.crc").unlink()

    def batches(self) -> list[Path]:
        """Return the folders of the micro-batches, in their order."""
        return sorted(self.folder.glob("ev_batch=*"))


def number(path: Path) -> int:
    return int(path.name)


def failure(query: Any) -> PySparkException | None:
    from pyspark.errors import PySparkException

    try:
        query.awaitTermination()
    except PySparkException as exc:
        return exc
    return None


@pytest.fixture
def pipeline(spark: SparkSession, feed: Feed, tmp_path: Path) -> Pipeline:
    feed.client.register_consumer("orders", "pipeline")
    return Pipeline(spark, feed, tmp_path / "lake")


def data(n: Any) -> str:
    return json.dumps({"n": n})


def test_good_and_bad_records_are_there_once_also_when_a_micro_batch_runs_again(
    pipeline: Pipeline, feed: Feed
) -> None:
    first, second, third, fourth = feed.insert(data(1), "nope", data("x"), data(4))
    feed.insert(data(5), "nope either")
    pipeline.run(max_events=4)
    assert len(pipeline.batches()) == 2
    assert_all_is_there_once(pipeline, (second, third))
    assert {row for row in pipeline.rows("ev_id", "ev_type") if row[0] in (first, fourth)} == {
        (first, "test"),
        (fourth, "test"),
    }
    today = feed.client.connection.execute("select (now() at time zone 'utc')::date::text")
    assert {day for (day,) in pipeline.rows("ev_date")} == {today.fetchone()[0]}  # type: ignore[index]  # a row
    assert sum(counts.events for counts in pipeline.wrote) == 6
    assert sum(counts.bad for counts in pipeline.wrote) == 3
    last = pipeline.batches()[-1]
    (written,) = last.glob("ev_date=*/*.parquet")
    shutil.copy(written, written.with_name("part-of-an-attempt-that-was-killed.parquet"))
    pipeline.forget_commit()
    pipeline.run()
    assert_all_is_there_once(pipeline, (second, third))


def assert_all_is_there_once(pipeline: Pipeline, bad: tuple[int, int]) -> None:
    assert pipeline.rows("n") == [(1,), (4,), (5,)]
    first, second, _ = pipeline.rows("ev_id", "ev_data", "reason", folder="_bad")
    assert first == (bad[0], "nope", "not a JSON object")
    assert second == (bad[1], data("x"), "n is not INT")


def test_a_micro_batch_that_runs_again_with_other_options_leaves_nothing_of_before(
    pipeline: Pipeline,
) -> None:
    events = pipeline.events(data("x"), "nope")
    pipeline.write(events, schema=DDL)
    assert pipeline.rows("ev_data", folder="_bad") == [("nope",), (data("x"),)]
    pipeline.write(events.where("ev_type = '1'"), schema="n STRING")
    assert pipeline.rows("n") == [("x",)]
    assert list(pipeline.folder.glob("_bad/*")) == []
    pipeline.write(events.where("ev_type = 'missing'"))
    assert pipeline.batches() == []


def test_an_old_copy_of_the_checkpoint_doubles_no_event(
    pipeline: Pipeline, feed: Feed, tmp_path: Path
) -> None:
    checkpoint, copy = pipeline.folder / "_checkpoint", tmp_path / "copy"
    feed.tick()
    pipeline.run()
    assert pipeline.batches() == [], "ticks alone leave no folder"
    shutil.copytree(checkpoint, copy)
    for numbers in ((1, 2), (3, "x"), (4, "y")):
        feed.insert(*map(data, numbers))
    pipeline.run(max_events=2)
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    feed.client.register_consumer_at("orders", "pipeline", 1)
    feed.insert(data(5))
    error = pipeline.fail()
    later = [*pipeline.batches()[1:], *sorted(pipeline.folder.glob("_bad/ev_batch=*"))]
    assert pipeline.rows("n") == [(1,), (2,), (3,), (4,)]
    assert len(later) == 4
    for path in later:
        assert str(path) in str(error)
        shutil.rmtree(path)
    assert "remove these folders" in str(error)
    pipeline.run()
    assert pipeline.rows("n") == [(1,), (2,), (3,), (4,), (5,)]
    assert pipeline.rows("ev_data", folder="_bad") == [(data("x"),), (data("y"),)]


def test_without_a_schema_the_data_stays_as_it_is(pipeline: Pipeline) -> None:
    pipeline.write(pipeline.events("nope", None), format="json")
    files = pipeline.folder.glob("ev_batch=*/ev_date=*/*.json")
    read = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(row.get("ev_data", "") for row in read) == ["", "nope"]


def test_the_terminal_shows_good_and_bad(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.write(pipeline.events(data(4711), "nope"), schema=DDL, to=None, format="console")
    shown = capsys.readouterr().out
    assert "4711" in shown
    assert "not a JSON object" in shown
    assert pipeline.batches() == []


def test_the_error_of_a_micro_batch_is_told_and_a_new_checkpoint_overwrites_nothing(
    pipeline: Pipeline, feed: Feed
) -> None:
    feed.insert(data(1))
    error = pipeline.fail(to="/dev/null/lake")
    assert "/dev/null" in find_cause(str(error)).message
    pipeline.run()
    assert pipeline.rows("n") == [(1,)]
    feed.insert(data(2))
    shutil.rmtree(pipeline.folder / "_checkpoint")
    feed.client.unregister_consumer("orders", "pipeline")
    feed.client.register_consumer("orders", "pipeline")
    feed.insert(data(3))
    pipeline.run(starting_offsets="subscription")
    assert pipeline.rows("n") == [(1,), (3,)]


def test_events_of_infinite_times_are_in_folders_that_readers_know(pipeline: Pipeline) -> None:
    """Spark holds infinity as its last moment: test_types.py."""
    ends = "timestamp_micros(9223372036854775807L), timestamp_micros(-9223372036854775807L)"
    known = "timestamp '10000-01-01 00:00:00Z', timestamp '9999-12-30 23:59:00Z'"
    moment = F.expr(f"element_at(array({ends}, {known}), int(ev_type))")
    datas = [*map(data, (1, 2, 3, 4))]
    pipeline.write(pipeline.events(*datas).withColumn("ev_time", moment), schema=DDL)
    days = {1: "9999-12-31", 2: "0001-01-01", 3: "9999-12-31", 4: "9999-12-30"}
    assert dict(pipeline.rows("n", "ev_date")) == days
    pipeline.write(pipeline.events("bad").withColumn("ev_time", moment), schema=DDL)
    assert pipeline.rows("ev_data", "ev_date", folder="_bad") == [("bad", "9999-12-31")]


FETCHED = """
    select sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::int
      from pg_stat_user_tables where relname ~ '^event_[0-9]'"""


def fetched(feed: Feed) -> int:
    """Return how many events the server has read, once all readers have ended."""
    eventually(lambda: feed.client.connection.execute(READERS).fetchone() == (0,))
    feed.client.connection.execute("select pg_stat_force_next_flush()")
    row = feed.client.connection.execute(FETCHED).fetchone()
    assert row is not None
    return int(row[0])


def test_events_are_read_once_and_bad_ones_twice_only_where_they_begin(
    pipeline: Pipeline, feed: Feed
) -> None:
    feed.insert(*map(data, range(1000)))
    before = fetched(feed)
    pipeline.run()
    assert 1000 <= fetched(feed) - before < 1500, "some more to plan the tasks"
    for _ in range(3):
        feed.insert("nope", *map(data, range(499)))
    before = fetched(feed)
    pipeline.run(max_events=500)
    assert 2000 <= fetched(feed) - before < 2500, "the first 500 twice"
    assert len(pipeline.rows("ev_data", folder="_bad")) == 3
    assert len(pipeline.rows("n")) == 1000 + 3 * 499
