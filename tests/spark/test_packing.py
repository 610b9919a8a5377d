"""Columns that are seldom set travel as one, and come out as they were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pgqpy.spark.source.packing import REST, packed, unpacked

NAMES = ("ev_extra2", "ev_id", "ev_retry", "ev_extra1")
EVENTS = [
    {"ev_extra2": None, "ev_id": 1, "ev_retry": None, "ev_extra1": None},
    {"ev_extra2": "b", "ev_id": 2, "ev_retry": -7, "ev_extra1": None},
    {"ev_extra2": "", "ev_id": 3, "ev_retry": None, "ev_extra1": "a"},
    {"ev_extra2": None, "ev_id": 4, "ev_retry": None, "ev_extra1": None},
    {"ev_extra2": None, "ev_id": 5, "ev_retry": 2**31 - 1, "ev_extra1": "{,}"},
]


def sent(events):
    """Return the batch that the server sends for events."""
    lists = []
    for event in events:
        values = [event["ev_extra2"], event["ev_retry"], event["ev_extra1"]]
        texts = [None if value is None else str(value) for value in values]
        lists.append(None if texts == [None] * 3 else texts)
    ids = pa.array([event["ev_id"] for event in events], pa.int64())
    rest = pa.array(lists, pa.list_(pa.string()))
    return pa.RecordBatch.from_arrays([ids, rest], names=["ev_id", REST])


@pytest.mark.parametrize("wanted", [EVENTS, EVENTS[:1], EVENTS[1:3], []], ids=len)
def test_each_event_gets_its_own_values_back(wanted):
    batch = unpacked(sent(wanted), NAMES)
    assert batch.to_pylist() == wanted
    assert [str(kind) for kind in batch.schema.types] == ["string", "int64", "int32", "string"]


def test_a_part_of_a_batch_is_unpacked_like_a_whole():
    assert unpacked(sent(EVENTS).slice(2), NAMES).to_pylist() == EVENTS[2:]


def test_the_server_packs_what_is_unpacked_here(connection):
    rows = "select null::text ev_extra2, 1::bigint ev_id, 3 ev_retry, 'a' ev_extra1"
    query = packed(f"{rows} union all select null, 2, null, null", NAMES)
    found = connection.execute(f"select * from ({query}) p order by ev_id").fetchall()
    assert found == [(1, [None, "3", "a"]), (2, None)]


def test_one_such_column_travels_alone():
    names = ("ev_id", "ev_extra3")
    assert packed("select 1", names) == "select 1"
    batch = pa.RecordBatch.from_pydict({"ev_id": [1], "ev_extra3": ["c"]})
    assert unpacked(batch, names) is batch
