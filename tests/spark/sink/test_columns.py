"""What the sink makes of options and columns: decided before anything is written."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    MapType,
    StringType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from pgqpy.errors import InvalidArgument
from pgqpy.spark.options import refuse_overwrite, sink_options
from pgqpy.spark.sink.rows import event_columns
from pgqpy.spark.sink.writers import BatchWriter

TYPE, DATA = ("type", "string"), ("data", "string")


def test_fields_are_found_by_name_in_any_order_and_case():
    found = event_columns([("Extra4", "string"), ("DATA", "string"), ("tYpe", "varchar(9)")], None)
    assert found.fields == (2, 1, None, None, None, 0)
    assert found.packed == ()


def test_without_data_all_others_are_packed():
    found = event_columns([("id", "bigint"), TYPE, ("Name", "string"), ("extra1", "string")], None)
    assert found.fields == (1, None, 3, None, None, None)
    assert found.packed == ((0, "id"), (2, "Name"))


def test_type_may_come_from_an_option():
    found = event_columns([("data", "string")], "paid")
    assert (found.fields[0], found.event_type) == (None, "paid")


@pytest.mark.parametrize(
    ("schema", "event_type", "names", "remedy"),
    [
        ([DATA], None, "eventType", "a column type"),
        ([TYPE, DATA], "paid", "eventType", "leave one out"),
        ([("type", "int"), DATA], None, "type", "cast"),
        ([TYPE, ("data", "binary")], None, "data", "cast"),
        ([TYPE, ("data", "struct<a:int>")], None, "data", "cast"),
        ([TYPE, DATA, ("extra2", "map<string,string>")], None, "extra2", "cast"),
        ([TYPE, DATA, ("id", "int"), ("x", "int")], None, "id, x", "drop them"),
        ([TYPE], None, "data", "add one"),
        ([TYPE, ("extra1", "string")], None, "data", "add one"),
        ([TYPE, DATA, ("Data", "string")], None, "data", "rename or drop"),
        ([TYPE, ("id", "int"), ("ID", "int")], None, "id", "rename or drop"),
    ],
)
def test_columns_that_make_no_event_are_refused_by_name(schema, event_type, names, remedy):
    with pytest.raises(InvalidArgument) as caught:
        event_columns(schema, event_type)
    assert names in str(caught.value)
    assert remedy in str(caught.value)


def test_options_have_the_names_of_the_readers_and_any_case():
    found = sink_options({"QUEUE": "q", "eventtype": "paid", "checkpointLocation": "notes"})
    assert (found.queue, found.event_type, found.exactly_once) == ("q", "paid", True)
    assert not sink_options({"queue": "q", "mode": "AT_LEAST_ONCE"}).exactly_once
    assert sink_options({"path": "q"}).queue == "q", "df.write.format('pgq').save('q')"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "option queue is missing"),
        ({"queue": ""}, "option queue is missing"),
        ({"queue": "q", "mode": "sometimes"}, "exactly_once or at_least_once"),
        ({"queue": "q", "evenType": "x"}, "did you mean eventType?"),
        ({"queue": "q", "topic": "x"}, "did you mean queue?"),
        ({"queue": "q", "truncate": "true"}, "a writer has dsn, service, queue, mode, eventType"),
        ({"queue": "q", "consumer": "c"}, "unknown option consumer"),
        ({"queue": "q", "dsn": "x", "service": "y"}, "exclude each other"),
    ],
)
def test_wrong_options_are_refused_with_the_remedy(options, says):
    with pytest.raises(InvalidArgument) as caught:
        sink_options(options)
    assert says in str(caught.value)


VARIANT, YEAR = VariantType(), YearMonthIntervalType(0, 0)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (VARIANT, "column c is variant, which has no JSON form: cast it"),
        (YEAR, "column c is interval year, which has no JSON form"),
        (ArrayType(YEAR), "array<interval year>, contains interval year, which has no JSON"),
        (
            MapType(StringType(), StructType().add("v", VARIANT)),
            "contains variant, which has no JSON",
        ),
        (DayTimeIntervalType(), "interval day to second, which has no JSON"),
    ],
)
def test_types_that_json_lacks_are_refused_by_the_column(kind, says):
    schema = StructType().add("ok", "date").add("c", kind)
    with pytest.raises(InvalidArgument) as caught:
        BatchWriter({"queue": "q", "eventType": "t"}, schema)
    assert says in str(caught.value)


def test_a_password_shows_nowhere_in_the_options():
    shown = repr(sink_options({"queue": "q", "dsn": "postgresql://u:secret@h/d"}))
    assert "secret" not in shown


def test_overwriting_is_refused_in_a_sentence():
    refuse_overwrite(overwrite=False)
    with pytest.raises(InvalidArgument, match=r'use mode\("append"\)'):
        refuse_overwrite(overwrite=True)
