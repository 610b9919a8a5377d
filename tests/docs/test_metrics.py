"""The page of metrics: its tables name exactly what is exposed, and its example is a consumer."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from pgqpy.consumers import Consumer
from pgqpy.consumers.metrics import expose_metrics
from pgqpy.ticker.gauges import GAUGES
from pgqpy.ticker.metrics import TickerMetrics
from tests.docs.markdown import blocks, codes, rows

PAGE = "docs/metrics.md"


def exposed(registry: CollectorRegistry) -> set[str]:
    """Return the names as Prometheus sees them; histograms without their suffixes."""
    families = [each for each in registry.collect() if each.name.startswith("pgq_")]
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in families}


def described(*tables: str) -> set[str]:
    return {name for table in tables for cells in rows(PAGE, table) for name in codes(cells[0])}


def example() -> type[Consumer]:
    (block,) = blocks(PAGE, "python")
    module: dict[str, Any] = {"__name__": "block"}
    exec(compile(block.text, f"{PAGE}:{block.line}", "exec"), module)
    kind: type[Consumer] = module["Billing"]
    return kind


def test_the_metrics_of_the_ticker_are_all_described() -> None:
    tables = [f"metric of {what}" for what in ("the ticker", "queues", "consumers")]
    assert described(*tables) == exposed(TickerMetrics().registry)


def test_the_metrics_of_a_process_are_all_described() -> None:
    registry = CollectorRegistry()
    expose_metrics(example()(""), registry)
    assert described("metric of a process") == exposed(registry)


def test_each_metric_is_in_the_table_of_its_labels() -> None:
    for table, labels in (("queues", ("queue",)), ("consumers", ("queue", "consumer"))):
        for name in described(f"metric of {table}"):
            assert GAUGES[name][1:] in (labels, (*labels, "name")), name
