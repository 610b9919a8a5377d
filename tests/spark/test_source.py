"""The source inside Spark: as a DataFrame and as a stream."""

from __future__ import annotations

import json

import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import PySparkException
from pyspark.sql.functions import length, unix_micros

import pgqpy
from pgqpy.errors import ConsumerRunning, InvalidArgument, SchemaMissing
from pgqpy.spark import finish, register
from tests.consumers.harness import installed
from tests.spark.feed import CONSUMER, QUEUE, Feed, as_uri
from tests.support.waiting import eventually

RAW = "select pgq.insert_event_raw('orders', %s, %s, null, null, %s, %s, null, null, null, null)"


@pytest.fixture
def frame(spark, feed):
    """Read the queue as a DataFrame."""
    return lambda **options: spark.read.format("pgq").options(**feed.options(**options)).load()


@pytest.fixture
def query(spark, feed, tmp_path, checkpoint):
    """Start a query from the queue into a folder; it is stopped at the end."""
    started = []

    def start(trigger=None, place=checkpoint, **options):
        given = feed.options(**{"consumer": CONSUMER, **options})
        writer = spark.readStream.format("pgq").options(**given).load().writeStream
        writer = writer.option("checkpointLocation", place).trigger(**(trigger or NOW))
        started.append(writer.format("parquet").start(str(tmp_path / "lake")))
        return started[-1]

    yield start
    for each in started:
        each.stop()


NOW = {"availableNow": True}
ALWAYS = {"processingTime": "0 seconds"}


@pytest.fixture
def lake(spark, tmp_path):
    """Return what is in the folder."""

    def datas():
        schema = "ev_data string"
        return sorted(
            row[0] for row in spark.read.schema(schema).parquet(str(tmp_path / "lake")).collect()
        )

    return datas


def failure(started):
    """Wait for the query to fail, and return what it says."""
    with pytest.raises(PySparkException) as caught:
        started.awaitTermination(60)
    return str(caught.value)


def test_values_come_through_spark_as_they_went_in(frame, feed, client):
    data = "äöü🐘\n" * 200_000
    client.connection.execute(RAW, (1, "infinity", "Zürich, 日本", None))
    client.connection.execute(RAW, (2, "1969-12-31 23:59:59.123456+00", None, data))
    feed.tick()
    events = frame().select(
        "ev_id", unix_micros("ev_time"), "ev_type", length("ev_data"), "ev_data", "tick_id"
    )
    first, last = sorted(events.collect())
    assert tuple(first) == (1, 2**63 - 1, "Zürich, 日本", None, None, 2)
    assert tuple(last) == (2, -876544, None, len(data), data, 2)


def test_a_dataframe_reads_the_same_ticks_each_time_and_its_partitions_are_tasks(
    frame, feed, client
):
    assert frame(minPartitions=4).collect() == []
    client.insert_events(feed.queue, (("t", str(number)) for number in range(1000)))
    feed.tick()
    events = frame(minPartitions=3)
    assert events.rdd.getNumPartitions() == 3
    feed.insert("later")
    assert sorted(int(row.ev_data) for row in events.collect()) == list(range(1000))
    assert frame().count() == 1001


def test_what_is_wrong_is_said_by_load(frame):
    with pytest.raises(PySparkException) as caught:
        frame(dsn="host=:geheim@db", minPartitions="2")
    assert "the DSN is not valid" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_what_is_wrong_with_a_range_is_said_by_the_action(frame):
    with pytest.raises(PySparkException, match="startingOffsets: tick 99 is in the future"):
        frame(startingOffsets={"orders": 99}).collect()


def test_a_database_without_the_schema(feed, empty_dsn):
    with pytest.raises(SchemaMissing, match="run pgqpy schema install"):
        feed.source(dsn=empty_dsn).schema()


def test_a_password_is_neither_in_a_plan_nor_in_an_error(spark, own_server, checkpoint, capfd):
    with pgqpy.connect(installed(own_server)) as client:
        feed = Feed(client, own_server.tcp_dsn())
        feed.insert("a")
        events = spark.read.format("pgq").options(**feed.options()).load()
        assert events.count() == 1
        events.explain(mode="extended")
        stream = spark.readStream.format("pgq").options(**feed.options(consumer=CONSUMER)).load()
        stream.explain(mode="extended")
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        started = writer.start()
        started.processAllAvailable()
        started.explain(True)
        said = repr(started.lastProgress)
        client.drop_queue(feed.queue, force=True)
        said += failure(started)
        wrong = make_conninfo(feed.dsn, password="geheim")
        with pytest.raises(PySparkException, match="check user, password and database") as caught:
            spark.read.format("pgq").options(**feed.options(dsn=wrong)).load()
        said += str(caught.value)
        row = spark.sql("select 't' as type, 'd' as data")
        with pytest.raises(PySparkException, match="password authentication failed") as caught:
            row.write.format("pgq").mode("append").options(dsn=wrong, queue="q").save()
        said += str(caught.value)
    said += "".join(capfd.readouterr())
    assert "Batch" in said
    assert own_server.password not in said
    assert "geheim" not in said


def test_plans_show_no_dsn_and_hide_what_the_user_hides(spark, feed):
    hidden = "spark.sql.redaction.options.regex"
    before = str(spark.conf.get(hidden))
    try:
        spark.conf.set(hidden, "consumer")
        for _ in range(2):
            register(spark)
        uri = as_uri(feed.dsn, "geheim")
        options = feed.options(dsn=uri, consumer="beer")
        plan = spark.readStream.format("pgq").options(**options).load()._jdf.queryExecution()
        assert "queue=orders" in plan.toString()
        assert uri not in plan.toString()
        assert "beer" not in plan.toString()
        assert str(spark.conf.get(hidden)).count("dsn") == 1
    finally:
        spark.conf.set(hidden, before)


def test_a_stream_keeps_its_limits_goes_on_where_it_ended_and_finish_moves_its_subscription(
    spark, query, lake, feed, client, checkpoint, tmp_path
):
    client.register_consumer(feed.queue, CONSUMER)
    for data in "ab":
        feed.insert(data, data.upper())
    started = query(maxEventsPerTrigger=2)
    started.awaitTermination(60)
    rows = [progress.numInputRows for progress in started.recentProgress]
    assert [number for number in rows if number] == [2, 2]
    assert lake() == sorted("abAB")
    assert feed.standing() == (2, [3])
    without_checkpoint = failure(query(place=str(tmp_path / "other")))
    assert 'startingOffsets={"orders": 2}' in without_checkpoint
    assert 'startingOffsets={"orders": 3}' in without_checkpoint
    for _ in range(2):
        assert finish(spark, checkpoint, dsn=feed.dsn) == {CONSUMER: {QUEUE: 3}}
        assert feed.standing() == (3, [])
    feed.insert("c")
    query().awaitTermination(60)
    assert lake() == sorted("abABc")
    assert feed.standing() == (3, [4])


def test_a_query_that_runs_sees_each_tick_and_has_its_consumer_alone(
    spark, query, lake, feed, client, checkpoint, tmp_path
):
    started = query(ALWAYS)
    started.processAllAvailable()

    def seen():
        return [row for each in started.recentProgress if (row := each.numInputRows)]

    feed.insert("a")
    eventually(lambda: seen() == [1])
    feed.insert("b", "c")
    eventually(lambda: seen() == [1, 2])
    assert lake() == ["a", "b", "c"]
    latest = json.loads(started.lastProgress.sources[0].latestOffset)[QUEUE]
    assert (latest["events_behind"], latest["seconds_behind"]) == (0, 0.0)
    with pytest.raises(ConsumerRunning, match="stop it first, then call finish again"):
        finish(spark, checkpoint, dsn=feed.dsn)
    with pytest.raises(InvalidArgument, match="is not the checkpoint"):
        finish(spark, checkpoint + "/sources", dsn=feed.dsn)
    said = failure(query(ALWAYS, place=str(tmp_path / "other")))
    assert "consumer 'lake' of queue 'orders' runs already: pgqpy spark lake" in said
    assert "stop it first, or give this one a name of its own (option consumer)" in said
    assert started.isActive
    client.drop_queue(feed.queue, force=True)
    assert "no queue 'orders' in this database: create it with" in failure(started)
