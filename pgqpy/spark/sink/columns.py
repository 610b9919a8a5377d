"""Mapping of the columns of a DataFrame to the fields of an event. Without I/O."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import DataType

EXTRAS = ("extra1", "extra2", "extra3", "extra4")
FIELDS = ("type", "data", *EXTRAS)
TEXT = ("string", "varchar", "char")
NUMBERS = {"byte", "short", "integer", "long", "float", "double", "decimal", "boolean", "void"}
TIMES = {"date", "timestamp", "timestamp_ntz"}
PACKABLE = {*TEXT, *NUMBERS, *TIMES, "binary", "array", "map", "struct"}  # Spark's typeName


class EventColumns(NamedTuple):
    """The indexes of the columns that become the fields of an event.

    Attributes:
        fields: the columns of type, data, extra1..4; None if there is no such column.
        packed: index and name of the columns that become the data, as one JSON object.
        event_type: the type of every event; None if a column has the type.
    """

    fields: tuple[int | None, ...]
    packed: tuple[tuple[int, str], ...]
    event_type: str | None


def event_columns(schema: Sequence[tuple[str, str]], event_type: str | None) -> EventColumns:
    """Return the mapping for columns with these names and Spark types.

    A column `data` becomes the event's data unchanged. Without it, all columns except `type` and
    extra1..4 are packed as JSON.

    Raises:
        InvalidArgument: a field has no column or several, a column has no field, or a column has
            the wrong type.
    """
    names = [name.lower() for name, _ in schema]
    for name, times in Counter(names).items():
        if times > 1:
            raise _refused(name, f"there are {times} columns {name}: rename or drop one")
    for (name, kind), field in zip(schema, names, strict=True):
        if field in FIELDS and not kind.startswith(TEXT):
            remedy = f'cast it: df.withColumn("{name}", col("{name}").cast("string"))'
            raise _refused(name, f"column {name} is {kind}, and must be string: {remedy}")
    _check_one_type(names, event_type)
    packed = tuple((n, name) for n, (name, _) in enumerate(schema) if name.lower() not in FIELDS)
    if "data" in names and packed:
        others = ", ".join(name for _, name in packed)
        remedy = "drop them, or leave out data and they become JSON"
        raise _refused(packed[0][1], f"beside data there is no field for {others}: {remedy}")
    if "data" not in names and not packed:
        raise _refused("data", "there is no column data, and none to pack as JSON: add one")
    fields = tuple(names.index(field) if field in names else None for field in FIELDS)
    return EventColumns(fields, packed, event_type)


def check_packable(name: str, kind: DataType) -> None:
    """Raise InvalidArgument if the type of a column, or a type inside it, has no JSON form."""
    for each in _types_in(kind):
        if each.typeName() not in PACKABLE:
            whole = "" if each is kind else f" contains {each.simpleString()}, which"
            raise _refused(
                name,
                f"column {name} is {kind.simpleString()},{whole or ' which'} has no JSON form: "
                "cast it to string, convert it with to_json, or drop it",
            )


def _types_in(kind: DataType) -> Iterator[DataType]:
    """Yield a type and the types inside it."""
    yield kind
    for name in ("elementType", "keyType", "valueType"):
        if hasattr(kind, name):
            yield from _types_in(getattr(kind, name))
    for field in getattr(kind, "fields", ()):
        yield from _types_in(field.dataType)


def _check_one_type(names: Sequence[str], event_type: str | None) -> None:
    if "type" in names and event_type is not None:
        problem = "option eventType and column type exclude each other: leave one out"
        raise _refused("eventType", problem)
    if "type" not in names and event_type is None:
        problem = 'events need a type: a column type, or .option("eventType", "paid")'
        raise _refused("eventType", problem)


def _refused(parameter: str, message: str) -> InvalidArgument:
    return InvalidArgument(message, parameter=parameter)
