"""Columns of the source: names, Spark types, and the projection that a query selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

TICK_ID = "tick_id"
TXID = "ev_txid"
TIME = "ev_time"
TYPES: dict[str, DataType] = {
    "ev_id": LongType(),
    TIME: TimestampType(),
    TXID: LongType(),
    "ev_retry": IntegerType(),
    "ev_type": StringType(),
    "ev_data": StringType(),
    "ev_extra1": StringType(),
    "ev_extra2": StringType(),
    "ev_extra3": StringType(),
    "ev_extra4": StringType(),
    TICK_ID: LongType(),
}
NEVER_NULL = frozenset({"ev_id", TIME, TXID, TICK_ID})


def whole_schema() -> StructType:
    """Return the default schema: all columns of an event, and tick_id."""
    return StructType([StructField(name, kind) for name, kind in TYPES.items()])


class Projection(NamedTuple):
    """The columns that Spark wants, in order."""

    names: tuple[str, ...]
    nullable: tuple[bool, ...]

    @property
    def selected(self) -> tuple[str, ...]:
        """The columns to select on the server. tick_id is computed from ev_txid."""
        names = [name for name in self.names if name != TICK_ID]
        return tuple(names if not self.with_tick or TXID in names else [*names, TXID])

    @property
    def with_tick(self) -> bool:
        """Whether tick_id is among the columns."""
        return TICK_ID in self.names

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema that Spark requires of the first batch."""
        fields = [
            StructField(name, TYPES[name], nullable)
            for name, nullable in zip(self.names, self.nullable, strict=True)
        ]
        return to_arrow_schema(StructType(fields), timezone="UTC")


def projection_of(schema: StructType) -> Projection:
    """Return the projection for a schema that the user gave.

    Raises:
        InvalidArgument: a column is unknown, has another type, or appears twice.
    """
    for field in schema.fields:
        if schema.names.count(field.name) > 1:
            raise InvalidArgument(
                f"schema: column {field.name} appears twice: name it once",
                parameter="schema",
            )
        wanted = TYPES.get(field.name)
        if wanted is None:
            raise InvalidArgument(
                f"schema: events have no column {field.name!r}, only {', '.join(TYPES)}: "
                "parse ev_data with from_json",
                parameter="schema",
            )
        if not field.nullable and field.name not in NEVER_NULL:
            raise InvalidArgument(
                f"schema: column {field.name} may be null: declare it without NOT NULL",
                parameter="schema",
            )
        if field.dataType != wanted:
            raise InvalidArgument(
                f"schema: column {field.name} is {wanted.simpleString()}, "
                f"not {field.dataType.simpleString()}: cast it after reading",
                parameter="schema",
            )
    if not schema.fields:
        raise InvalidArgument("schema: name at least one column", parameter="schema")
    return Projection(
        tuple(field.name for field in schema.fields),
        tuple(field.nullable for field in schema.fields),
    )
