"""The sessions of the dashboard; those of pages are read only, with the least role."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from psycopg import Connection, errors, sql

from pgqpy.client import connect_as_tool
from pgqpy.client.opening import PINNED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pgqpy import Client

    T = TypeVar("T")

SETTINGS = {
    **PINNED,
    "default_transaction_read_only": "on",
    "statement_timeout": "5s",
    "lock_timeout": "1s",
    "jit": "off",  # it would compile a query for longer than the query takes
}
MOST_SESSIONS = 4
ROLES = ("pgq_reader", "pgq_dashboard")
ALLOWED = """
    select p.proname from pg_proc p
     where p.pronamespace = 'pgq'::regnamespace and p.proname = any (%s)
     group by 1 having bool_or(has_function_privilege(p.oid, 'execute'))"""


class Rights(NamedTuple):
    """What a session of the pages may see."""

    payloads: bool  # events, reasons, tracebacks
    types: bool  # types and classes of errors
    history: bool
    changes: bool


class Asked(NamedTuple):
    """A session, and what it may see."""

    client: Client
    rights: Rights


class Database:
    """Runs the queries of pages in threads, over a few sessions."""

    def __init__(self, dsn: str, *, hide_payloads: bool, writes: bool = False) -> None:
        """Take the DSN; the first query connects.

        With `writes`, sessions keep the rights of the login, for the changes of operators.
        """
        self._dsn = dsn
        self._roles = () if writes else ROLES[1:] if hide_payloads else ROLES
        self._settings = (
            {**SETTINGS, "default_transaction_read_only": "off"} if writes else SETTINGS
        )
        self._hide_payloads = hide_payloads
        self._free: list[Asked] = []
        self._places = asyncio.Semaphore(MOST_SESSIONS)

    async def run(self, work: Callable[[Asked], T]) -> T:
        """Run queries in a thread. Raises the errors of the client and of psycopg."""
        async with self._places:
            return await asyncio.to_thread(self._run, work)

    def close(self) -> None:
        """Close the sessions; a later query opens new ones."""
        while self._free:
            self._free.pop().client.connection.close()

    def _run(self, work: Callable[[Asked], T]) -> T:
        asked = self._take()
        try:
            return work(asked)
        finally:
            if asked.client.connection.closed:
                self.close()  # the server ended this session, and maybe the others too
            else:
                self._free.append(asked)

    def _take(self) -> Asked:
        with suppress(IndexError):
            return self._free.pop()
        name = "pgqpy dashboard"
        client = connect_as_tool(self._dsn, self._settings, fallback_application_name=name)
        try:
            self._lower_rights(client.connection)
            return Asked(client, self._rights(client.connection))
        except BaseException:
            client.connection.close()
            raise

    def _lower_rights(self, connection: Connection[Any]) -> None:
        """Set the first role that this login may take. Without one its own rights stay."""
        for role in self._roles:
            with suppress(errors.InsufficientPrivilege, errors.InvalidParameterValue):
                connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
                return

    def _rights(self, connection: Connection[Any]) -> Rights:
        names = ["get_dead_events", "get_dead_event_counts", "get_history", "get_changes"]
        allowed = allowed_functions(connection, names)
        payloads, *others = (name in allowed for name in names)
        return Rights(payloads and not self._hide_payloads, *others)


def allowed_functions(connection: Connection[Any], names: Sequence[str]) -> frozenset[str]:
    """Return which of these functions of the schema the session may call."""
    rows = connection.execute(ALLOWED, [list(names)]).fetchall()
    return frozenset(name for (name,) in rows)
