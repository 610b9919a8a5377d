"""A call of one SQL function, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pgqpy.calls import _check as check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import LiteralString

    from pgqpy.records import Batch

T = TypeVar("T")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """What to send, and how to read the answer. Holds no connection and does no I/O.

    Attributes:
        function: the SQL function's name, without the schema.
        sql: the statement, with psycopg's `%s` placeholders.
        params: their values.
        decode: turns the rows into the result.
        error_data: the attributes that an error of this call gets: queue, consumer, …
        prepare: as psycopg's; False: never as a prepared statement.
    """

    function: str
    sql: LiteralString
    params: Row
    decode: Callable[[list[Row]], T]
    error_data: Mapping[str, object] = field(default_factory=dict)
    prepare: bool | None = None

    def numbered(self) -> str:
        """Return the statement with `$1`, `$2` … in place of `%s`, as asyncpg takes it."""
        return _numbered(self.sql)


@cache
def _numbered(sql: str) -> str:
    first, *others = sql.split("%s")
    return first + "".join(f"${number}{text}" for number, text in enumerate(others, 1))


def value(rows: list[Row]) -> Any:  # the caller's Call names the type
    """Read the one column of the one row."""
    return rows[0][0]


def records(kind: type[T]) -> Callable[[list[Row]], list[T]]:
    """Read every row as a record."""
    return lambda rows: [kind(*row) for row in rows]


def record(kind: type[T]) -> Callable[[list[Row]], T | None]:
    """Read the one row as a record; None if there is none, or one whose columns are all NULL."""
    return lambda rows: kind(*rows[0]) if rows and rows[0][0] is not None else None


def queue_call(
    function: str,
    sql: LiteralString,
    queue: str,
    *more: object,
    decode: Callable[[list[Row]], T] = value,
    **error_data: object,
) -> Call[T]:
    """Return a call whose first parameter, and error data, is a queue."""
    params = (check.name("queue", queue), *more)
    return Call(function, sql, params, decode, {"queue": queue, **error_data})


def consumer_call(
    function: str,
    sql: LiteralString,
    queue: str,
    consumer: str,
    *more: object,
    decode: Callable[[list[Row]], T] = value,
    **error_data: object,
) -> Call[T]:
    """Return a call whose first parameters, and error data, are a queue and a consumer."""
    params = (check.name("queue", queue), check.name("consumer", consumer), *more)
    data = {"queue": queue, "consumer": consumer, **error_data}
    return Call(function, sql, params, decode, data)


def batch_call(
    function: str,
    sql: LiteralString,
    batch: Batch | int,
    *more: object,
    decode: Callable[[list[Row]], T] = value,
    **error_data: object,
) -> Call[T]:
    """Return a call whose first parameter, and error data, is an open batch."""
    batch_id = check.batch_id(batch)
    data = {"batch_id": batch_id, **error_data}
    return Call(function, sql, (batch_id, *more), decode, data)
