"""What a page is: a path, a template, the function that collects its values; its sessions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from psycopg import Connection, errors, sql

from pgqpy import calls
from pgqpy.client import connect_as_tool
from pgqpy.client.opening import PINNED
from pgqpy.dashboard.charts import SPAN, Chart, charts
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from pgqpy import Client
    from pgqpy.dashboard.guard import Asker
    from pgqpy.watch import Snapshot

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


ROWS = 50  # of a table on one page
LARGEST_ID = 2**63 - 1
MOST_DIGITS = 9  # of a page number


@dataclass(frozen=True)
class View:
    """What a page is made from: the snapshot, the request, a session of the database."""

    snapshot: Snapshot
    params: Mapping[str, str]
    asker: Asker
    asked: Asked | None  # a page without `asks` has none
    now: datetime
    whole: bool = True  # the whole page, not the part that follows the snapshots

    @property
    def client(self) -> Client:
        """The client of the session."""
        assert self.asked is not None  # noqa: S101  # this page asks
        return self.asked.client

    @property
    def rights(self) -> Rights:
        """What the session may see."""
        assert self.asked is not None  # noqa: S101  # this page asks
        return self.asked.rights

    def text(self, name: str) -> str | None:
        """Return a parameter; None if it is missing or empty."""
        return self.params.get(name) or None

    def history(self, queue: str, consumer: str | None = None) -> list[Chart]:
        """Return the charts; none for the part that follows the snapshots, which keeps them."""
        if not (self.whole and self.rights.history):
            return []
        points = self.client.call(calls.history.get_history(queue, self.now - SPAN, consumer))
        return charts(points, self.now)

    def needed(self, name: str) -> str:
        """Return a parameter; InvalidArgument if it is missing."""
        value = self.params.get(name)
        if value is None:
            raise InvalidArgument(f"the address of this page lacks {name}=…")
        return value

    def number(self, name: str) -> int | None:
        """Return a parameter that is an id; None if it is missing; InvalidArgument if it is not."""
        value = self.text(name)
        if value is None:
            return None
        digits = value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST_ID))
        if not digits or int(value) > LARGEST_ID:
            raise InvalidArgument(f"{name} is no number")
        return int(value)


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        asks: it needs a session of the database.
        live: it follows the snapshots.
        audits: it shows the changes, which pgq_dashboard may see, and pgq_reader may not.
    """

    path: str
    template: str
    collect: Callable[[View], dict[str, Any]]
    asks: bool = True
    live: bool = False
    audits: bool = False


@dataclass(frozen=True)
class Table:
    """A part of a table: the rows of one page, in an order that links can change."""

    rows: Sequence[Any]
    total: int
    page: int
    sort: str
    search: str
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def pages(self) -> int:
        """How many pages the table has."""
        return max(1, -(-self.total // ROWS))


def table(
    rows: Sequence[Any],
    params: Mapping[str, str],
    orders: Mapping[str, Callable[[Any], Any]],
    name: Callable[[Any], str],
) -> Table:
    """Return one page of the rows: those whose name contains `q`, in the order `sort`.

    `orders` are keys to sort by; the first is the default. A key that starts with the worst.
    """
    search = params.get("q", "").strip()
    sort = params.get("sort", "")
    sort = sort if sort in orders else next(iter(orders))
    found = [row for row in rows if search.casefold() in name(row).casefold()]
    found.sort(key=lambda row: (orders[sort](row), name(row)))
    wanted = params.get("page", "1")
    last = max(1, -(-len(found) // ROWS))
    is_number = wanted.isascii() and wanted.isdigit() and len(wanted) <= MOST_DIGITS
    page = min(max(int(wanted) if is_number else 1, 1), last)
    return Table(found[(page - 1) * ROWS : page * ROWS], len(found), page, sort, search)
