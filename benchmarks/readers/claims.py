"""Receivers: each contestant's way to claim events, and to end them once they are handled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from psycopg.types.string import TextLoader

from benchmarks.figures import verify
from benchmarks.peers import tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

QUEUE = CONSUMER = "bench"
TOKEN = 11  # the column of a claim's token, after the event's columns and attempts
RECEIVE = f"select * from pgq.receive('{QUEUE}', '{CONSUMER}', %s, i_alone => true)"
DONE = f"select pgq.done('{QUEUE}', '{CONSUMER}', %s, %s)"
DONE_RECEIVE = f"select * from pgq.done_receive('{QUEUE}', '{CONSUMER}', %s, %s, %s)"


class Receiver(Protocol):
    """Claims events in a session that commits each statement."""

    def turn(self) -> list[int]:
        """Claim events, and end them now or in the next turn; return their ids."""
        ...

    def end(self) -> None:
        """End what is still claimed."""
        ...


class _Receiver:
    def __init__(self, connection: Connection[Any], limit: int) -> None:
        self._connection, self._limit = connection, limit
        # No contestant's data is parsed.
        connection.adapters.register_loader("jsonb", TextLoader)

    def end(self) -> None:
        """Do nothing: a turn ends what it claims."""

    def _rows(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement.encode(), params, prepare=True).fetchall()


class ByPgmq(_Receiver):
    """Reads with a visibility timeout, and deletes the list in one call."""

    def turn(self) -> list[int]:
        """Read and delete."""
        ids = [row[0] for row in self._rows(tables.PGMQ_READ, self._limit)]
        if ids:
            self._connection.execute(tables.PGMQ_DELETE, (ids,), prepare=True)
        return ids


class BySkipLocked(_Receiver):
    """Deletes rows: whoever dies before it has handled them has lost them."""

    def turn(self) -> list[int]:
        """Delete."""
        return [row[0] for row in self._rows(tables.PLAIN_TAKE, self._limit)]


class ByReceive(_Receiver):
    """Calls receive, then done."""

    def turn(self) -> list[int]:
        """Receive and end."""
        rows = self._rows(RECEIVE, self._limit)
        ids = [row[0] for row in rows]
        if rows:
            verify("events that were done", self._rows(DONE, rows[0][TOKEN], ids), [(len(ids),)])
        return ids


class ByDoneReceive(_Receiver):
    """Ends a list and claims the next in one call, as the library does."""

    _claim: tuple[int | None, list[int] | None] = (None, None)  # token, ids

    def turn(self) -> list[int]:
        """End the turn before; receive."""
        rows = self._rows(DONE_RECEIVE, *self._claim, self._limit)
        ids = [row[0] for row in rows]
        self._claim = (rows[0][TOKEN], ids) if rows else (None, None)
        return ids

    def end(self) -> None:
        """End the last turn."""
        token, ids = self._claim
        if ids:
            verify("events that were done", self._rows(DONE, token, ids), [(len(ids),)])


PGMQ, SKIP_LOCKED = "pgmq's statements", "SKIP LOCKED"
RECEIVE_DONE, BOTH = "pgqpy receive, done", "pgqpy done_receive"
RECEIVERS: dict[str, Callable[[Connection[Any], int], Receiver]] = {
    PGMQ: ByPgmq,
    SKIP_LOCKED: BySkipLocked,
    RECEIVE_DONE: ByReceive,
    BOTH: ByDoneReceive,
}
OURS = (RECEIVE_DONE, BOTH)
