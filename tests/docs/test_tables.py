"""The tables of the pages are the code's: settings, options, metrics, locks, functions, errors."""

from __future__ import annotations

import configparser
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pgqpy.cli.overviews import dashboard
from pgqpy.cli.trials import simulate
from pgqpy.consumers import Consumer
from pgqpy.consumers.metrics import expose_metrics
from pgqpy.consumers.settings import SETTINGS, BaseConsumer
from pgqpy.locks import (
    CHANGING,
    CLAIM,
    CONSUMER,
    COPYING,
    ENGINE,
    HOLDER,
    INSTALLING,
    MOVING,
    QUEUE,
    SANDBOX,
    SEQUENCE,
    SKIPS,
    TICKING,
    WATCHING,
)
from pgqpy.pipeline.metrics import PipelineMetrics
from pgqpy.spark.options import SINK_NAMES, SOURCE_NAMES
from pgqpy.sqlstates import BY_SQLSTATE
from pgqpy.ticker.metrics import GAUGES, TickerMetrics
from pgqpy.ticker.settings import TickerSettings
from tests.docs.markdown import blocks, codes, rows, text
from tests.support.tree import ROOT, files

CONSUMERS, OPERATIONS = "docs/consumers-reference.md", "docs/operations-reference.md"
SHARING = "docs/sharing.md"
METRICS, SPARK, SQL = "docs/metrics.md", "docs/spark-reference.md", "docs/sql.md"
VARIABLES = {f"PGQPY_{name.upper()}": it for name, it in TickerSettings.model_fields.items()}
SOURCES = ("schema/*.sql", "ticker/*.py", "consumers/*.py", "pgqpy/*.py")


class Billing(Consumer):
    """Measures its handlers."""

    queue, name = "orders", "billing"

    def process_event(self, event: Any) -> None:
        """Bill one order."""


def described(page: str, *headings: str, number: int = 0) -> set[str]:
    """Return what the first column of tables names."""
    cells = [row[0] for heading in headings for row in rows(page, heading, number)]
    return {name for cell in cells for name in codes(cell)}


def test_the_settings_of_consumers_are_all_described() -> None:
    described = [*rows(CONSUMERS, "setting"), *rows(SHARING, "setting")]
    defaults = {codes(name)[0]: default for name, default, _ in described}
    assert set(defaults) == set(SETTINGS) - {"queue", "name"}
    for name, default in defaults.items():
        value = repr(getattr(BaseConsumer, name)).replace("'", '"')
        assert codes(default.replace("10_000", "10000")) == [value]


def test_the_settings_of_the_ticker_are_all_described() -> None:
    assert described(OPERATIONS, "setting") == VARIABLES.keys()
    for name, default, _ in rows(OPERATIONS, "setting"):
        field = VARIABLES[codes(name)[0]]
        if isinstance(field.default, float):
            assert codes(default) == [str(field.default)]


def test_the_unit_starts_the_ticker() -> None:
    (block,) = blocks("docs/operations.md", "ini")
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd minds the case
    unit.read_string(block.text)
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"].endswith("pgqpy ticker run")
    given = dict(word.split("=", 1) for word in service["Environment"].split())
    assert set(given) <= VARIABLES.keys()


OF_OBJECTS = (CONSUMER, QUEUE, HOLDER, SEQUENCE, SKIPS, CLAIM, COPYING)


def test_the_advisory_locks_are_all_described() -> None:
    """Those of locks.py; tests/schema/test_rules.py compares them with the engine's."""
    named = {lock for cells in rows(OPERATIONS, "lock") for lock in advisory_locks(cells[0])}
    ours = {(number, None) for number in OF_OBJECTS}
    engine = (TICKING, INSTALLING, CHANGING, WATCHING, MOVING, SANDBOX)
    assert named == ours | {(ENGINE, number) for number in engine}
    texts = [(ROOT / name).read_text() for name in files(*SOURCES)]
    assert {lock for source in texts for lock in advisory_locks(source)} <= named


def advisory_locks(source: str) -> set[tuple[int, int | None]]:
    """Return both keys of each lock that is named; None stands for a second key of any number."""
    found = re.findall(r"\b(73665\d\d), (?!73665)([^\s,)]+)", source)
    return {(int(first), int(key) if key.isdigit() else None) for first, key in found}


def test_the_sql_functions_are_there_for_the_role_that_is_named(connection: Any) -> None:
    query = """
        select count(*) from pg_proc where proname = %s and pronamespace = 'pgq'::regnamespace
           and has_function_privilege(%s, oid, 'execute')
    """
    for signature, _, role in rows(SQL, "function"):
        (function,) = re.findall(r"`(\w+)\(", signature)
        name = "public" if role == "everybody" else f"pgq_{role}"
        assert connection.execute(query, [function, name]).fetchone()[0] > 0, signature


def test_every_error_code_is_described_with_its_class() -> None:
    named = {code: name for code, name, _ in rows(SQL, "SQLSTATE")}
    ours = {code: kind.__name__ for code, kind in BY_SQLSTATE.items() if code.startswith("PQ")}
    assert named == ours


@pytest.mark.parametrize(("number", "names"), [(0, SOURCE_NAMES), (1, SINK_NAMES)])
def test_the_options_of_spark_are_all_described(number: int, names: tuple[str, ...]) -> None:
    assert described(SPARK, "option", number=number) == set(names)


def test_the_options_of_the_simulation_are_all_described() -> None:
    known = {name for it in simulate.params for name in (*it.opts, *it.secondary_opts)}
    assert described("docs/simulate.md", "option") == known


def test_the_options_of_the_dashboard_are_all_described() -> None:
    page = text("docs/dashboard.md")
    options = {param.opts[0] for param in dashboard.params if param.opts}
    assert [name for name in options - {"--dsn"} if name not in page] == []


def test_the_metrics_are_all_described() -> None:
    tables = [f"metric of {what}" for what in ("the ticker", "queues", "consumers", "shared ones")]
    assert described(METRICS, *tables) == exposed(TickerMetrics().registry)
    registry = CollectorRegistry()
    expose_metrics(Billing(""), registry)
    assert described(METRICS, "metric of a process") == exposed(registry)
    assert described(METRICS, "metric of a pipeline") == exposed(PipelineMetrics().registry)


def exposed(registry: CollectorRegistry) -> set[str]:
    """Return the names as Prometheus sees them; histograms without their suffixes."""
    families = [each for each in registry.collect() if each.name.startswith("pgq")]
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in families}


def test_each_metric_is_in_the_table_of_its_labels() -> None:
    of_consumers = ("queue", "consumer")
    for table, labels in (
        ("queues", ("queue",)),
        ("consumers", of_consumers),
        ("shared ones", of_consumers),
    ):
        for name in described(METRICS, f"metric of {table}"):
            assert GAUGES[name][1:] in (labels, (*labels, "name"), (*labels, "state")), name
