"""The duty that keeps the database small: rotation, clean-up, vacuum of the small tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql

from pgqpy.errors import PgqError
from pgqpy.ticker.report import sqlstate

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.errors import Diagnostic

    from pgqpy import Client
    from pgqpy.records import MaintOperation

AGAIN = 1  # what an operation returns that wants to be called again at once
GONE = ("PQ001", "42P01")  # no such queue; its table went while it was waited for
ROTATE = "pgq.maint_rotate_tables_step1"


def never() -> bool:
    """Return False: nothing asks the duty to stop early."""
    return False


class Retried(NamedTuple):
    """What was moved out of the retry queue."""

    moved: int
    failures: tuple[tuple[str, psycopg.Error], ...]  # by queue: its events stay


def retry(client: Client, *, stopping: Callable[[], bool] = never) -> Retried:
    """Move every event whose time has come from the retry queue.

    Each call moves a bounded number in a transaction of its own, so it is called until nothing
    is left, or until `stopping` says so. The server tells of a queue that fails in a WARNING.
    """
    total, failures = 0, {}

    def note(warning: Diagnostic) -> None:
        error = psycopg.Error(warning.message_primary or "")
        error.sqlstate = warning.sqlstate
        failures[(warning.message_detail or "").removeprefix("queue ")] = error

    client.connection.add_notice_handler(note)
    try:
        while not stopping():
            moved = client.maint_retry_events()
            total += moved
            if not moved:
                break
    finally:
        client.connection.remove_notice_handler(note)
    return Retried(total, tuple(failures.items()))


class Maintained(NamedTuple):
    """What a round of maintenance did."""

    done: tuple[MaintOperation, ...]
    rotated: tuple[str, ...]  # queues that switched to their next table
    failures: tuple[tuple[MaintOperation, Exception], ...]


def maint(client: Client, *, stopping: Callable[[], bool] = never) -> Maintained:
    """Run every operation that is due, each in a transaction of its own.

    One that fails is among the failures, unless its queue was dropped meanwhile, and the others go
    on; a lost connection is raised.
    The connection is in autocommit mode (VACUUM allows nothing else).
    """
    done: list[MaintOperation] = []
    rotated: list[str] = []
    failures: list[tuple[MaintOperation, Exception]] = []
    for operation in client.maint_operations():
        if stopping():
            break
        try:
            if _run(client, operation, stopping):
                rotated.append(str(operation.func_arg))
        except (psycopg.Error, PgqError) as exc:
            if client.connection.closed:
                raise
            if not _is_of_dropped_queue(client, operation, exc):
                failures.append((operation, exc))
        else:
            done.append(operation)
    return Maintained(tuple(done), tuple(rotated), tuple(failures))


def _is_of_dropped_queue(client: Client, operation: MaintOperation, exc: Exception) -> bool:
    queue = operation.func_arg
    return sqlstate(exc) in GONE and queue is not None and not client.get_queue_info(queue)


def _run(client: Client, operation: MaintOperation, stopping: Callable[[], bool]) -> bool:
    """Run one operation until it is done; say whether it switched a queue's table."""
    name, argument = operation
    if name == "vacuum":
        client.connection.execute(sql.SQL("vacuum {}").format(_identifier(str(argument))))
        return False
    before = _current_table(client, operation)
    while _call(client, name, argument) == AGAIN and not stopping():
        pass
    return _current_table(client, operation) != before


def _call(client: Client, name: str, argument: str | None) -> object:
    arguments = [] if argument is None else [argument]
    query = sql.SQL("select {}({})").format(
        _identifier(name),
        sql.SQL(", ").join(sql.SQL("{}::text").format(text) for text in arguments),
    )
    row = client.connection.execute(query, prepare=False).fetchone()
    return row[0] if row else None


def _current_table(client: Client, operation: MaintOperation) -> int | None:
    if operation.func_name != ROTATE:
        return None
    queues = client.get_queue_info(operation.func_arg)
    return queues[0].queue_cur_table if queues else None


def _identifier(name: str) -> sql.Identifier:
    """Quote a name as PGQ's quote_fqname does: at its first dot."""
    return sql.Identifier(*name.split(".", 1))
