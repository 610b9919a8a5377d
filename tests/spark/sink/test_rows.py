"""Which rows can be stored, and how they arrive; which cannot, and what is said."""

from __future__ import annotations

import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql.types import StructType

from pgqpy.errors import InvalidEvent, QueueNotFound
from pgqpy.spark.sink.writers import BatchWriter
from tests.spark.sink.epochs import ARROW, SCHEMA
from tests.support.hostile import lay_trap, trapped
from tests.support.sqlstates import refused

MODES = pytest.mark.parametrize("mode", ["exactly_once", "at_least_once"])


@MODES
def test_any_text_arrives_as_it_is(epoch, stored, mode):
    texts = ["", "é✓😀", "\t\n\r\\\"'", "x" * 10_000_000, None, "\\N", "{NULL,null}", "last"]
    one = epoch(1, mode=mode)
    one.commit(one.task(*texts))
    assert stored() == texts


@MODES
def test_all_fields_arrive(options, connection, mode):
    names = ("extra4", "data", "type", "extra1", "extra2")
    schema = StructType()
    for name in names:
        schema = schema.add(name, "string")
    writer = BatchWriter(options | {"mode": mode}, schema)
    rows = [["4", None, "t", "1", None], [None, "d", "u", None, "2"]]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    batch = pa.record_batch(columns, names=list(names))
    writer.commit([writer.write(iter([batch.slice(0, 0), batch, batch.slice(1)]))])
    found = connection.execute(
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        " from pgq.event_1 order by ev_id"
    ).fetchall()
    second = ("u", "d", None, "2", None, None)
    assert found == [("t", None, "1", None, None, "4"), second, second]


@MODES
def test_functions_of_a_hostile_search_path_are_not_called(epoch, connection, stored, mode):
    lay_trap(connection)
    for number in (1, 2):
        one = epoch(number, mode=mode)
        one.commit(one.task(f"event {number}"))
    assert trapped(connection) == 0
    assert stored() == ["event 1", "event 2"]


BAD = [
    ({"type": None}, "d", "type is null"),
    ({"type": "a\0b"}, "d", "type contains a NUL"),
    ({}, "a\0", "data contains a NUL"),
    ({}, "x" * (64 * 1024 * 1024 + 1), "over the limit of 67108864"),
]


@MODES
@pytest.mark.parametrize(("type", "data", "says"), BAD, ids=[case[2] for case in BAD])
def test_a_row_that_cannot_be_stored_is_an_error_and_none_is(epoch, stored, mode, type, data, says):
    one = epoch(1, mode=mode)
    good = [["t"] * 5000, ["d"] * 5000]
    bad = [[type.get("type", "t")], [data]]
    with pytest.raises(InvalidEvent, match=says):
        one.write(pa.record_batch(columns, schema=ARROW) for columns in (good, bad))
    assert stored() == []


@MODES
def test_text_that_is_no_utf_8_is_an_error(epoch, options, stored, mode):
    octets = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    batch = pa.record_batch([pa.array(["t", "t"]), octets], names=["type", "data"])
    writer = BatchWriter(options | {"mode": mode}, SCHEMA)
    with pytest.raises(InvalidEvent, match="decode it first"):
        writer.write(iter([batch]))
    assert stored() == []


@MODES
def test_the_queue_may_refuse(epoch, client, stored, mode):
    client.set_queue_config("q", "per_tx_limit", 2)
    one = epoch(1, mode=mode)
    with refused("PQ007"):
        one.commit(one.task("a", "b", "c"))
    client.set_queue_config("q", "disable_insert", "true")
    with refused("PQ006"):
        one.task("a")
    client.drop_queue("q")
    with pytest.raises(QueueNotFound):
        one.task("a")


@MODES
def test_pgq_writer_is_role_enough(epoch, options, login, stored, mode):
    one = epoch(1, mode=mode, dsn=make_conninfo(options["dsn"], user=login("pgq_writer")))
    one.commit(one.task("a"))
    assert stored() == ["a"]
