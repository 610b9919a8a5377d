"""The ticker daemons, and all results of doctor."""

from __future__ import annotations

from typing import Any

from pgqpy.dashboard.page import Page, View


def collect(_view: View) -> dict[str, Any]:
    """Return nothing: the snapshot has it all."""
    return {}


TICKERS = Page("/tickers", "tickers.html", collect, asks=False, live=True)
