"""The log of changes, and the job that runs."""

from __future__ import annotations

from typing import Any

from pgqpy import calls
from pgqpy.dashboard.page import ROWS, Page, View


def collect(view: View) -> dict[str, Any]:
    """Return one page of the audit, the newest change first."""
    if not view.rights.changes:
        return {"changes": None, "older": None}
    found = view.client.call(calls.history.get_changes(ROWS + 1, view.number("before")))
    older = found[ROWS - 1].id if len(found) > ROWS else None
    return {"changes": found[:ROWS], "older": older}


CHANGES = Page("/changes", "changes.html", collect, live=True, audits=True)
