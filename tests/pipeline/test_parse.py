"""Every record is good or bad, as a whole, and a bad one says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.errors import InvalidArgument
from pgqpy.pipeline.records import (
    EVENT_SCHEMA,
    bad_records,
    good_records,
    parse,
    read_schema,
    unnamed_fields,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DDL = "id INT NOT NULL, total DECIMAL(5,2), who STRUCT<name: STRING, age: INT>, tags ARRAY<INT>"
BAD: dict[str | None, str] = {
    None: "no data",
    "": "not a JSON object",
    "null": "not a JSON object",
    "nope": "not a JSON object",
    "[]": "not a JSON object",
    '[{"id": 1}]': "not a JSON object",
    '{"id": 1': "not a JSON object",
    "{'id': 1}": "not a JSON object",
    '{"id": 1} {"id": 2}': "text after the JSON object",
    '{"id": 1}, {"id": 2}': "text after the JSON object",
    '{"id": 1} rubbish': "text after the JSON object",
    '{"id": 1}}': "text after the JSON object",
    '{"id": 1}]} rubbish': "text after the JSON object",
    '{"id": 1}], "list": [{"id": 2}': "text after the JSON object",
    '{"id": "x"}': "id is not INT",
    '{"id": 3000000000}': "id is not INT",
    '{"id": 1.5, "total": true}': "id is not INT; total is not DECIMAL(5,2)",
    '{"id": 1, "total": 1234.5}': "total is not DECIMAL(5,2)",
    '{"id": 1, "tags": [1, "x"]}': "tags is not ARRAY<INT>",
    '{"id": 1, "who": {"age": "x"}}': "a nested field does not fit its type",
    '{"total": 1}': "id is missing",
    '{"id": null}': "id is missing",
}
GOOD: dict[str, tuple[Any, ...]] = {
    '{"id": 1}': (1, None, None, None),
    '{"id": 2, "total": 1.5, "more": [{"x": 1}]}': (2, "1.50", None, None),
    ' {"id": 3, "who": {"name": "ann"}, "tags": []} ': (3, None, ("ann", None), []),
}


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    data = [*BAD, *GOOD]
    rows = [(n, None, "placed", text, "a", None, None, None) for n, text in enumerate(data)]
    return spark.createDataFrame(rows, EVENT_SCHEMA)


def test_a_record_is_good_or_bad_and_says_why(spark: SparkSession, events: Any) -> None:
    schema = read_schema(DDL)
    bad = bad_records(parse(events, schema), schema).collect()
    assert {row.ev_data: row.reason for row in bad} == BAD
    good = good_records(parse(events, schema)).collect()
    numbers = sorted([row.ev_id for row in good] + [row.ev_id for row in bad])
    assert numbers == list(range(len(BAD) + len(GOOD)))
    read = [(row.id, row.total and str(row.total), row.who, row.tags) for row in good]
    assert read == list(GOOD.values())


def test_the_columns_of_the_event_stand_around_those_of_its_data(events: Any) -> None:
    schema = read_schema(DDL)
    extras = ["ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4"]
    event = ["ev_id", "ev_time", "ev_type"]
    good = good_records(parse(events, schema))
    assert good.columns == [*event, "id", "total", "who", "tags", *extras]
    assert bad_records(parse(events, schema), schema).columns == [
        *event,
        "ev_data",
        *extras,
        "reason",
    ]


NESTED = '{"x": {"id": 1, "id": [-0.0, null]}, "x": true}'
LONG = '{"x": ' + "9" * 5000 + ', "ID": 1}'  # Python reads no longer integer than 4,300 digits
DEEP = '{"id": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}"  # and no text that is so deep
REST = [
    ('{"id": 1}', None),
    (" { } ", None),
    ('\n{ "x" :1.10 ,\t"id":1, "y":1e400}', '{"x" :1.10, "y":1e400}'),
    (r'{"a\"b": "\u00e9, \"id\": {", "\u0069d": 1}', r'{"a\"b": "\u00e9, \"id\": {"}'),
    *((text, text) for text in (NESTED, LONG, DEEP)),
]


def test_fields_without_a_column_are_kept_as_they_are_spelled() -> None:
    assert [unnamed_fields(text, {"id"}) for text, _ in REST] == [rest for _, rest in REST]


def test_good_records_have_their_other_fields_in_a_column(spark: SparkSession) -> None:
    datas = ['{"id": 1, "ID": 1.10, "q": null}', '{"id": 2}', "nope", None]
    rows = [(n, None, "a.b.truncate", text, *[None] * 4) for n, text in enumerate(datas)]
    events, schema = spark.createDataFrame(rows, EVENT_SCHEMA), read_schema("id INT")
    good = good_records(parse(events, schema), rescue=True)
    assert good.columns[3:6] == ["id", "ev_rescued", "ev_extra1"]
    rescued = [(1, '{"ID": 1.10, "q": null}'), (2, None)]
    assert [(row.id, row.ev_rescued) for row in good.sort("ev_id").collect()] == rescued
    good = good_records(parse(events, schema, capture=True), capture=True, rescue=True)
    assert good.columns[5:] == ["id", "ev_rescued", "ev_old"]
    read = [(row.id, row.ev_rescued) for row in good.sort("ev_id").collect()]
    assert read == [*rescued, (None, None), (None, None)]


CHANGES = [
    ("s.t.snapshot", '{"id": 1}', "1", None),
    ("a.b.c.update", '{"id": 2}', "2", '{"id": 2, "total": 1}'),
    ("s.t.truncate", None, None, None),
    ("s.t.delete", '{"id": "x"}', "x", None),
    ("t.insert", '{"id": 3}', "3", None),
    ("s.t.replace", '{"id": 4}', "4", None),
    ("s.t.insert.more", '{"id": 5}', "5", None),
    (None, '{"id": 6}', "6", None),
]
NO_CHANGES = [(n, "not a change of a captured table") for n in (4, 5, 6, 7)]


@pytest.fixture
def changes(spark: SparkSession) -> DataFrame:
    rows = [(n, None, *change, None, None) for n, change in enumerate(CHANGES)]
    return spark.createDataFrame(rows, EVENT_SCHEMA)


def test_a_change_has_its_parts_as_columns_and_what_is_no_change_is_bad(changes: Any) -> None:
    schema = read_schema("id INT NOT NULL")
    parsed = parse(changes, schema, capture=True)
    good = good_records(parsed, capture=True)
    assert good.columns == ["ev_id", "ev_time", "ev_table", "ev_op", "ev_key", "id", "ev_old"]
    assert [tuple(row)[2:] for row in good.sort("ev_id").collect()] == [
        ("s.t", "snapshot", "1", 1, None),
        ("a.b.c", "update", "2", 2, '{"id": 2, "total": 1}'),
        ("s.t", "truncate", None, None, None),
    ]
    bad = bad_records(parsed, schema, capture=True).sort("ev_id").collect()
    assert [(row.ev_id, row.reason) for row in bad] == [(3, "id is not INT"), *NO_CHANGES]


def test_without_a_schema_the_row_of_a_change_stays_as_it_is(changes: Any) -> None:
    parsed = parse(changes, None, capture=True)
    good = good_records(parsed, capture=True)
    assert good.columns == ["ev_id", "ev_time", "ev_table", "ev_op", "ev_key", "ev_row", "ev_old"]
    rows = [(row.ev_op, row.ev_row) for row in good.sort("ev_id").collect()]
    ops = ["snapshot", "update", "truncate", "delete"]
    assert rows == [(op, data) for op, (_, data, *_) in zip(ops, CHANGES, strict=False)]
    bad = bad_records(parsed, None, capture=True).sort("ev_id").collect()
    assert [(row.ev_id, row.reason) for row in bad] == NO_CHANGES


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("id INTT", "INTT"),
        ("id INT,, x INT", "','"),
        ("INT", "each column and its type"),
        ("", "each column and its type"),
        ("id INT, ID STRING", "id appears twice"),
        ("ev_id INT", "ev_id is the pipeline's own"),
        ("Ev_Date DATE", "ev_date is the pipeline's own"),
        ("ev_key INT", "ev_key is the pipeline's own"),
        ("ev_rescued INT", "ev_rescued is the pipeline's own"),
        ("id INT, _Corrupt STRING", "_corrupt is the pipeline's own"),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused_in_one_line(
    spark: SparkSession, ddl: str, why: str
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_schema(ddl)
    assert refused.value.parameter == "schema"
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
