"""Events over a connection of asyncpg. Needs the extra `asyncpg`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

try:
    import asyncpg
except ModuleNotFoundError:
    from pgqpy.errors import MissingExtra

    raise MissingExtra('asyncpg is needed: pip install "pgqpy[asyncpg]"') from None

from pgqpy import calls
from pgqpy.calls.bulk import Load
from pgqpy.client._rows import in_lists_async
from pgqpy.client.opening import call_for
from pgqpy.sqlstates import translated

if TYPE_CHECKING:
    from datetime import datetime

    from asyncpg.pool import PoolConnectionProxy
    from typing_extensions import Unpack

    from pgqpy.calls import Call, Interval, Payload
    from pgqpy.calls.payload import Dataclass, Default
    from pgqpy.calls.produce import EmitOptions
    from pgqpy.client._rows import AsyncEvents
    from pgqpy.typed_events import TypedEvent

    Connection: TypeAlias = asyncpg.Connection | PoolConnectionProxy

T = TypeVar("T")


async def emit(
    connection: Connection,
    queue: str | TypedEvent | Dataclass,
    type: str | None = None,
    data: Payload = None,
    **options: Unpack[EmitOptions],
) -> int:
    """Insert one event in the connection's transaction, or alone; return the event's id.

    `queue` is a name, or a typed event, which leaves out `type`, `data` and `key`. `type`, `data`
    and the options are those of `Client.insert_event`; `key` is extra1, and `json_default` converts
    what has no form in JSON. An error undoes only the call: the transaction goes on. Raises what
    `Client.insert_event` raises.

        async with connection.transaction():
            await emit(connection, "orders", "placed", {"order": 17}, key="ann")
    """
    call = calls.produce.emit(queue, type, data, **options)
    _check(connection)
    async with connection.transaction():
        return await _run(connection, call)


async def emit_many(
    connection: Connection,
    queue: str,
    events: AsyncEvents,
    *,
    delay: Interval | None = None,
    deliver_at: datetime | None = None,
    json_default: Default | None = None,
) -> list[int]:
    """Insert any number of events, all or none, and return their ids in order.

    The events and the times are those of `Client.insert_events` with `returning_ids`. All events
    are read first. An error undoes only the call: the transaction goes on.

        await emit_many(connection, "orders", [("placed", {"order": 17}, "ann")])
    """
    due = calls.produce.due_time(delay, deliver_at)
    _check(connection)
    load = Load(calls.PAYLOAD_LIMIT, json_default)
    async for some in in_lists_async(events, []):
        load.add(some)
    ids: list[int] = []
    async with connection.transaction():
        time = None
        if due is not None:
            time = await _run(connection, calls.produce.time_of(due))
        for piece in load.pieces:
            found = await _run(connection, calls.produce.insert_piece(queue, piece, time))
            ids += found
    return ids


def _check(connection: object) -> None:
    if not isinstance(connection, (asyncpg.Connection, asyncpg.pool.PoolConnectionProxy)):
        how = call_for(connection) or "pgqpy.AsyncClient takes one of psycopg"
        if isinstance(connection, asyncpg.Pool) or connection is None:
            how = "async with pool.acquire() as connection"
        kind = type(connection).__name__
        raise TypeError(f"a connection of asyncpg is needed, not {kind}: {how}")


async def _run(connection: Connection, call: Call[T]) -> T:
    with translated(call.function, call.error_data, kind=asyncpg.PostgresError):
        return call.decode(await connection.fetch(call.numbered(), *call.params))
