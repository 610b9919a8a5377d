"""What pgqpy exposes, and the files in deploy/ that use it."""

from __future__ import annotations

import json
import re
from typing import Any

from prometheus_client import CollectorRegistry

from pgqpy.consumers import Consumer
from pgqpy.consumers.metrics import expose_metrics
from pgqpy.ticker.metrics import TickerMetrics
from tests.support.tree import ROOT

ALERTS = ROOT / "deploy/prometheus/alerts.yml"
CONFIG = ROOT / "deploy/prometheus/prometheus.yml"
BOARD = ROOT / "deploy/grafana/pgqpy.json"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
NAME = re.compile(r"\bpgq_[a-z_]+\b")


class Billing(Consumer):
    """A consumer whose metrics are exposed."""

    queue, name = "orders", "billing"

    def process_event(self, event: Any) -> None:
        """Do nothing."""


def samples() -> set[str]:
    """Return the names that a query may ask for."""
    registry = CollectorRegistry()
    expose_metrics(Billing(""), registry)
    families = [*registry.collect(), *TickerMetrics().registry.collect()]
    return {
        f"{family.name}{suffix}"
        for family in families
        if family.name.startswith("pgq_")
        for suffix in SUFFIXES.get(family.type, ("",))
    }


def alerts() -> dict[str, str]:
    """Return the text of each alert rule, by its name."""
    parts = re.split(r"^ +- alert: (\w+)$", ALERTS.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def panels() -> list[dict[str, Any]]:
    """Return the panels of the board that show something."""
    found: list[dict[str, Any]] = json.loads(BOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def board_queries() -> list[str]:
    """Return the queries of the board, with its variables for everything."""
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [
        re.sub(r"\$(database|queue|consumer)", ".*", query).replace("$__rate_interval", "1m")
        for query in queries
    ]
