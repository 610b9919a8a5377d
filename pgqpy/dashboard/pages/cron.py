"""The cron entries."""

from __future__ import annotations

from typing import Any

from pgqpy.dashboard.page import Page, View, table


def collect(view: View) -> dict[str, Any]:
    """Return the entries of one page, the one that is due first at the top."""
    entries = view.client.get_cron_info()
    orders = {"due": lambda entry: (entry.next_due is None, entry.next_due), "name": lambda _: 0}
    return {"table": table(entries, view.params, orders, lambda entry: entry.name)}


CRON = Page("/cron", "cron.html", collect, live=True)
