"""What a page is: a path, a template, and the function that collects the values for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pgqpy import calls
from pgqpy.dashboard.charts import SPAN, Chart, charts
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from pgqpy import Client
    from pgqpy.dashboard.database import Asked, Rights
    from pgqpy.dashboard.guard import Asker
    from pgqpy.watch import Snapshot

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
