"""Columns are right at their edges."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pgqpy.errors import InvalidArgument
from pgqpy.spark.source.partitions import checked_schema, whole_schema
from tests.spark.feed import read

UTC = timezone.utc
RAW = """select pgq.insert_event_raw(%(queue)s, %(id)s, %(time)s, null, %(retry)s,
    %(type)s, %(data)s, %(e1)s, %(e2)s, %(e3)s, %(e4)s)"""
EVENT = dict.fromkeys(("retry", "type", "data", "e1", "e2", "e3", "e4"))


@pytest.fixture
def insert(feed):
    """Insert an event with any id and time."""

    def insert_raw(**event):
        given = {"queue": feed.queue, "time": "2026-11-21 12:00+00", "id": 1, **EVENT, **event}
        feed.client.connection.execute(RAW, given)

    return insert_raw


def times(feed):
    """Return ev_time as microseconds, by ev_id: not every one is a datetime."""
    reader = feed.batch(StructType().add("ev_id", "long").add("ev_time", "timestamp"))
    (partition,) = reader.partitions()
    table = pa.Table.from_batches(reader.read(partition)).sort_by("ev_id")
    return table["ev_time"].cast(pa.int64()).to_pylist()


def test_nulls_stay_nulls_and_empty_texts_stay_texts(feed, insert):
    insert(id=1)
    insert(id=2, type="", data="", e1="", e2="", e3="", e4="")
    feed.tick()
    nothing, empty = sorted(read(feed.batch()), key=lambda row: row["ev_id"])
    names = ("ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
    assert [nothing[name] for name in names] == [None] * 6
    assert [empty[name] for name in names] == [""] * 6
    assert nothing["ev_retry"] is None


def test_text_comes_as_it_went(feed, insert):
    texts = [
        "Zürich, Ελλάδα, 日本, 🐘\U0010ffff",
        'a "quoted" text, with; commas',
        "lines\nand\r\nmore\rlines\n",
        "\\N",
        "\\.",
        "\t\x01\x7f\\",
        '"',
        "  ",
        "NULL",
    ]
    large = "0123456789äöüß🐘\n" * 500_000
    assert len(large.encode()) > 10_000_000
    for number, text in enumerate(texts):
        insert(id=number, type=text, data=text, e4=text)
    insert(id=len(texts), data=large)
    feed.tick()
    *rows, last = sorted(read(feed.batch()), key=lambda row: row["ev_id"])
    for name in ("ev_type", "ev_data", "ev_extra4"):
        assert [row[name] for row in rows] == texts
    assert last["ev_data"] == large


def test_numbers_near_their_ends(feed, insert):
    feed.client.connection.execute(
        "select pgq.seq_setval(queue_event_seq, %s) from pgq.queue", [2**62]
    )
    start = feed.tick()
    insert(id=2**62, retry=2**31 - 1)
    insert(id=-(2**63), retry=-(2**31))
    feed.tick()
    low, high = sorted(
        read(feed.batch(startingOffsets={"orders": start})), key=lambda row: row["ev_id"]
    )
    assert (low["ev_id"], low["ev_retry"]) == (-(2**63), -(2**31))
    assert (high["ev_id"], high["ev_retry"]) == (2**62, 2**31 - 1)


def test_times_before_1970_and_with_microseconds(feed, insert):
    insert(id=1, time="1969-12-31 23:59:59.123456+00")
    insert(id=2, time="0001-01-01 00:00:00.000001+00")
    insert(id=3, time="2026-11-21 12:00:00.999999+05:30")
    feed.tick()
    rows = sorted(read(feed.batch()), key=lambda row: row["ev_id"])
    assert [row["ev_time"] for row in rows] == [
        datetime(1969, 12, 31, 23, 59, 59, 123456, UTC),
        datetime(1, 1, 1, 0, 0, 0, 1, UTC),
        datetime(2026, 11, 21, 6, 30, 0, 999999, UTC),
    ]


def test_a_session_in_another_zone_reads_the_same_moment(feed, insert, connection):
    name = connection.info.dbname
    connection.execute(f"alter database {name} set timezone = 'Asia/Kathmandu'".encode())
    insert(id=1, time="2026-11-21 12:00:00+00")
    feed.tick()
    assert read(feed.batch())[0]["ev_time"] == datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_times_that_no_spark_can_hold_become_its_first_and_last(feed, insert):
    for number, time in enumerate(
        ["-infinity", "4713-01-01 BC", "294246-12-31", "294276-12-31", "infinity"]
    ):
        insert(id=number, time=time)
    feed.tick()
    found = times(feed)
    first, last = -(2**63), 2**63 - 1
    assert found == [first, -210863520000000000, 9223371158400000000, last, last]


def test_a_transactions_id_and_tick_are_those_of_the_event(feed, client):
    with client.transaction():
        (txid,) = client.connection.execute("select txid_current()").fetchone()
        client.insert_event(feed.queue, "a", "b")
    tick = feed.tick()
    (row,) = read(feed.batch())
    assert (row["ev_txid"], row["tick_id"]) == (txid, tick)
    assert list(row) == whole_schema().fieldNames()


def test_batches_have_exactly_the_schema_that_spark_compares(feed):
    feed.insert("a", None)
    schema = StructType().add("tick_id", "long", nullable=False)
    schema = schema.add("ev_time", "timestamp", nullable=False).add("ev_data", "string")
    wanted = to_arrow_schema(schema, timezone="UTC")
    reader = feed.batch(schema)
    (partition,) = reader.partitions()
    for batch in reader.read(partition):
        assert batch.schema.equals(wanted)
        batch.validate(full=True)


def test_a_schema_of_ones_own_projects_on_the_server(feed):
    feed.insert("a")
    reader = feed.batch(StructType().add("ev_data", "string").add("tick_id", "long"))
    (partition,) = reader.partitions()
    assert partition.query.startswith('select "ev_txid", "ev_data" from (')
    assert read(reader) == [{"ev_data": "a", "tick_id": 2}]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType().add("id", "long"), "no column 'id', only ev_id, ev_time"),
        (StructType().add("ev_data", "binary"), "ev_data is string, not binary: cast it"),
        (StructType().add("ev_id", "integer"), "ev_id is bigint, not int"),
        (StructType().add("ev_time", "timestamp_ntz"), "ev_time is timestamp, not timestamp_ntz"),
        (StructType().add("ev_type", "string", nullable=False), "ev_type may be null"),
        (StructType(), "at least one column"),
        (StructType().add("ev_id", "long").add("ev_id", "long"), "column ev_id appears twice"),
    ],
)
def test_a_schema_that_events_do_not_have_is_refused(schema, words):
    with pytest.raises(InvalidArgument) as caught:
        checked_schema(schema)
    assert words in str(caught.value)
