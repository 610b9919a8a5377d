"""Columns packed as JSON: what comes out is what went in, to PostgreSQL and to Python."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgqpy.errors import InvalidArgument, InvalidEvent
from pgqpy.spark.sink.json_text import DAY, DAYS, UNITS, objects, texts

CET = "Europe/Berlin"


def read(column: pa.Array) -> list:
    return [json.loads(text) for text in texts("c", column).to_pylist()]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@settings(deadline=None)
@given(st.lists(st.none() | TEXT))
def test_any_text_comes_back(values):
    assert read(pa.array(values, pa.string())) == values
    assert read(pa.array(values, pa.large_string())) == values


@settings(deadline=None)
@given(st.lists(st.none() | st.floats()))
def test_any_number_comes_back(values):
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    found = [
        words.get(value, value) if value is not None else None
        for value in read(pa.array(values, pa.float64()))
    ]
    assert [repr(value) for value in found] == [
        repr(value) if value is None or not math.isnan(value) else "nan" for value in values
    ]


@settings(deadline=None)
@given(
    st.lists(
        st.none()
        | st.lists(st.none() | st.dictionaries(TEXT, st.none() | st.integers(-(2**63), 2**63 - 1)))
    ),
    st.integers(0, 3),
)
def test_any_nesting_comes_back_also_from_the_middle_of_a_batch(values, start):
    column = pa.array(
        [
            None if v is None else [None if m is None else list(m.items()) for m in v]
            for v in values
        ],
        pa.list_(pa.map_(pa.string(), pa.int64())),
    )
    assert read(column.slice(start)) == values[start:]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (
            pa.array([2**63 - 1, -(2**63), None]),
            ["9223372036854775807", "-9223372036854775808", "null"],
        ),
        (pa.array([1.0, -0.0, 1e300, 5e-324]), ["1.0", "-0.0", "1e+300", "5e-324"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
        (pa.array([Decimal("1.50"), None]), ["1.50", "null"]),
        (pa.array([Decimal("9" * 38)]), ["9" * 38]),
        (pa.array([True, False, None]), ["true", "false", "null"]),
        (pa.array([None, None], pa.null()), ["null", "null"]),
        (pa.array([date(1, 1, 1), date(9999, 12, 31)]), ['"0001-01-01"', '"9999-12-31"']),
        (
            pa.array(
                [datetime(1960, 2, 29, 23, 59, 59, 999999, timezone.utc)], pa.timestamp("us", CET)
            ),
            ['"1960-02-29T23:59:59.999999Z"'],
        ),
        (pa.array([datetime(2020, 1, 1)], pa.timestamp("us")), ['"2020-01-01T00:00:00.000000"']),  # noqa: DTZ001  # a time without a zone
        (
            pa.array([b"\0\xff", b"", None]),
            [f'"{base64.b64encode(bytes([0, 255])).decode()}"', '""', "null"],
        ),
        (pa.array([{"a": 1, "b": None}, None]), ['{"a":1,"b":null}', "null"]),
        (pa.array([{}], pa.struct([])), ["{}"]),
        (
            pa.array([[(1, "x")], [], None], pa.map_(pa.int32(), pa.string())),
            ['{"1":"x"}', "{}", "null"],
        ),
        (pa.array([[1, None], [], None]), ["[1,null]", "[]", "null"]),
        (pa.array([[[1], []], [None]]), ["[[1],[]]", "[null]"]),
    ],
)
def test_each_type_has_one_text(column, expected):
    assert texts("c", column).to_pylist() == expected


def test_a_row_is_an_object_with_all_its_columns():
    found = objects(['a "b"', "é"], [pa.array([1, None]), pa.array(["x", None])])
    assert found.to_pylist() == ['{"a \\"b\\"":1,"é":"x"}', '{"a \\"b\\"":null,"é":null}']


def test_a_nul_is_refused_by_its_column():
    with pytest.raises(InvalidEvent, match="column c contains a NUL"):
        texts("c", pa.array(["a\0b"]))


def test_a_type_without_json_is_refused_by_its_column():
    with pytest.raises(InvalidArgument, match="cast it to string"):
        texts("c", pa.array([1], pa.duration("us")))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_first_and_the_last_time_that_have_a_text_are_written(unit):
    assert texts("c", pa.array([*DAYS, None], pa.date32())).to_pylist() == [
        '"-32767-01-01"',
        '"32767-12-31"',
        "null",
    ]
    day = DAY * UNITS[unit]
    moments = pa.array([DAYS[0] * day, (DAYS[1] + 1) * day - 1], pa.timestamp(unit))
    first, last = texts("c", moments).to_pylist()
    assert first.startswith('"-32767-01-01T00:00:00')
    assert last.startswith('"32767-12-31T23:59:59')


@pytest.mark.parametrize("beyond", [DAYS[0] - 1, DAYS[1] + 1])
def test_a_time_without_a_text_is_refused_by_its_column(beyond):
    days = pa.array([0, None, beyond], pa.date32())
    moments = pa.array([0, None, beyond * DAY * UNITS["us"]], pa.timestamp("us", "UTC"))
    for column in (days, moments, pa.StructArray.from_arrays([days], ["c"])):
        with pytest.raises(InvalidEvent, match="column c contains a time beyond the years"):
            texts("c", column)
