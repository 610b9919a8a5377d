"""The search for an event that cannot be read, after the error of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import AsyncClientCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from pgqpy.client import unreadable
from pgqpy.errors import InvalidEvent

if TYPE_CHECKING:
    from pgqpy.calls.read import EventSet
    from pgqpy.client._async.runner import AsyncCallRunner


async def find(
    runner: AsyncCallRunner, events: EventSet, sqlstate: str | None
) -> InvalidEvent | None:
    """Find the event that is not text, or too large: the SQLSTATE tells what is looked for.

    Its id is unknown if a transaction failed. None: no event is too large, so it is not the cause.
    """
    unknown = InvalidEvent(None, **events.error_data, sqlstate=sqlstate)
    found = None
    async with runner.exclusive:
        if runner.status() == TransactionStatus.INERROR:
            return unknown
        async with runner.cursor() as cursor:
            query = unreadable.query(events, sqlstate)
            async for row in cursor.stream(query, events.params, binary=True):
                found = found or unreadable.error(events, sqlstate, row)
    return found or (None if sqlstate == unreadable.TOO_LARGE else unknown)


async def find_leased(runner: AsyncCallRunner, events: EventSet) -> InvalidEvent:
    """Find the event that is not text among those that a call leases, and undo the call.

    All of it is one message to the server. Other threads or tasks use the connection too: no
    statement of theirs may get into the transaction that is rolled back.
    """
    query = "begin; " + unreadable.octets(events) + "; rollback"
    async with (
        runner.exclusive,
        AsyncClientCursor(runner.connection, row_factory=tuple_row) as cursor,
    ):
        try:
            await cursor.execute(query, events.params)
        except psycopg.Error:
            await runner.connection.rollback()
            raise
        cursor.nextset()
        rows = await cursor.fetchall()
    found = (unreadable.not_text(events, row) for row in rows)
    return next(filter(None, found), InvalidEvent(None, **events.error_data))
