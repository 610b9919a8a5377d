"""What the sink makes of options and columns: decided before anything is written."""

from __future__ import annotations

import pytest

from pgqpy.errors import InvalidArgument
from pgqpy.spark.options import sink_options
from pgqpy.spark.sink.rows import event_columns

TYPE, DATA = ("type", "string"), ("data", "string")


def test_fields_are_found_by_name_in_any_order_and_case():
    found = event_columns([("Extra4", "string"), ("DATA", "string"), ("tYpe", "varchar(9)")], None)
    assert found.fields == (2, 1, None, None, None, 0)


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
        ([TYPE, DATA, ("id", "int"), ("x", "int")], None, "id, x", "to_json"),
        ([TYPE], None, "data", "add one"),
        ([TYPE, ("extra1", "string")], None, "data", "add one"),
        ([TYPE, DATA, ("Data", "string")], None, "data", "rename or drop"),
        ([TYPE, ("id", "int")], None, "id", "to_json"),
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
