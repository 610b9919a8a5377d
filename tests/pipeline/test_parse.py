"""Every record is good or bad, as a whole, and a bad one says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.errors import InvalidArgument
from pgqpy.pipeline.writer import EVENT_SCHEMA, bad_records, good_records, parse, read_schema

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
