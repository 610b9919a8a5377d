"""Columns that are seldom set travel as one, while they are null.

To ADBC a null costs more than a number. Nearly all events have neither a retry nor extras: sent as
one column, a million of 200 octets take 0.15 s of CPU to fetch rather than 0.21 (ADBC 1.8), 0.38
rather than 0.62 (1.13, whose wheel is compiled without optimisation). Where they are set, the array
costs what the columns would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

SELDOM = {
    "ev_retry": pa.int32(),
    **dict.fromkeys((f"ev_extra{n}" for n in range(1, 5)), pa.string()),
}
REST = "rest"
PACKED = sql.SQL("select {} from ({}) e")
ARRAY = sql.SQL("case when num_nonnulls({0}) > 0 then array[{1}] end as {2}")


def packed(query: str, names: Sequence[str]) -> str:
    """Return a query of the same rows with the seldom columns as one; the query itself if few."""
    seldom = _seldom(names)
    if not seldom:
        return query
    array = ARRAY.format(
        sql.SQL(", ").join(map(sql.Identifier, seldom)),
        sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in seldom),
        sql.Identifier(REST),
    )
    others = [sql.Identifier(name) for name in names if name not in seldom]
    chosen = sql.SQL(", ").join([*others, array])
    return PACKED.format(chosen, sql.SQL(query)).as_string(None)


def unpacked(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return the batch with the columns by these names."""
    seldom = _seldom(names)
    if not seldom:
        return batch
    rest = batch.column(REST)
    columns = _nulls(rest, seldom) if rest.null_count == len(rest) else _values(rest, seldom)
    arrays = [columns[name] if name in seldom else batch.column(name) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _seldom(names: Sequence[str]) -> list[str]:
    found = [name for name in names if name in SELDOM]
    return found if len(found) > 1 else []


def _nulls(rest: Any, names: Sequence[str]) -> dict[str, Any]:
    made = {kind: pa.nulls(len(rest), kind) for kind in {SELDOM[name] for name in names}}
    return {name: made[SELDOM[name]] for name in names}


def _values(rest: Any, names: Sequence[str]) -> dict[str, Any]:
    """Take each column from the values of all arrays, which lie side by side."""
    there = rest.is_valid().to_numpy(zero_copy_only=False)
    starts = (np.cumsum(there) - 1) * len(names)
    values = rest.flatten()
    return {
        name: values.take(pa.array(starts + place, mask=~there)).cast(SELDOM[name])
        for place, name in enumerate(names)
    }
