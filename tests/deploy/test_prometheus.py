"""Debian's Prometheus takes the rules and the board's queries, and each alert fires when it should.

`make test-prometheus` runs these tests; they need the package prometheus.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from pgqpy.consumers.metrics import expose_metrics
from tests.consumers.harness import Running
from tests.deploy.exposed import ALERTS, CONFIG, Billing, alerts, board_queries
from tests.support.waiting import eventually
from tests.ticker.harness import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pgqpy

pytestmark = pytest.mark.prometheus

D, Q, C = 'database="shop"', 'database="shop",queue="q"', 'database="shop",queue="q",consumer="c"'
# A database in which all is well.
HEALTHY = {
    f"pgq_ticker_active{{{D}}}": "1x60",
    f"pgq_ticker_last_poll_age_seconds{{{D}}}": "0x60",
    f"pgq_ticker_failing_queues{{{D}}}": "0x60",
    f'pgq_errors_total{{{D},duty="maint"}}': "3x60",
    f"pgq_reconnects_total{{{D}}}": "2x60",
    f"pgq_ticker_lag_seconds{{{Q}}}": "60x60",
    f"pgq_new_events{{{Q}}}": "0x60",
    f"pgq_queue_paused{{{Q}}}": "0x60",
    f"pgq_delayed_overdue_seconds{{{Q}}}": "0x60",
    f'pgq_cron_late_seconds{{{Q},name="nightly"}}': "0x60",
    f"pgq_rotation_overdue_seconds{{{Q}}}": "600x60",
    f"pgq_oldest_transaction_seconds{{{D}}}": "30x60",
    f"pgq_notify_queue_usage_ratio{{{D}}}": "0x60",
    f"pgq_consumer_lag_seconds{{{C}}}": "2x60",
    f"pgq_pending_events{{{C}}}": "100x60",
    f"pgq_consumer_last_seen_seconds{{{C}}}": "1x60",
    f"pgq_consumer_connected{{{C}}}": "1x60",
    f"pgq_oldest_batch_seconds{{{C}}}": "5x60",
    f"pgq_batch_attempts{{{C}}}": "1x60",
    f"pgq_inflight_crashes{{{C}}}": "0x60",
    f"pgq_inflight_oldest_seconds{{{C}}}": "1x60",
    f"pgq_inflight_oldest_claim_seconds{{{C}}}": "600x60",
    f"pgq_inflight_front_lag_seconds{{{C}}}": "1x60",
    f'pgq_inflight{{{C},state="waiting"}}': "100x60",
    f"pgq_dead_events{{{C}}}": "7x60",
    f"pgq_retry_events{{{C}}}": "10x60",
}
# What is different when an alert fires.
TROUBLE = {
    "PgqNoTicker": {f"pgq_ticker_active{{{D}}}": "0x60"},
    "PgqTickerStuck": {f"pgq_ticker_last_poll_age_seconds{{{D}}}": "0+60x60"},
    "PgqQueueNotTicked": {f"pgq_new_events{{{Q}}}": "5x60"},
    "PgqQueueFailing": {f"pgq_ticker_failing_queues{{{D}}}": "2x60"},
    "PgqTickerErrors": {f'pgq_errors_total{{{D},duty="maint"}}': "0+2x60"},
    "PgqTickerReconnects": {f"pgq_reconnects_total{{{D}}}": "0+1x60"},
    "PgqDelayedEventsOverdue": {f"pgq_delayed_overdue_seconds{{{Q}}}": "0+60x60"},
    "PgqCronLate": {f'pgq_cron_late_seconds{{{Q},name="nightly"}}': "0+60x60"},
    "PgqConsumerLags": {f"pgq_consumer_lag_seconds{{{C}}}": "700x60"},
    "PgqConsumerNotRunning": {f"pgq_consumer_last_seen_seconds{{{C}}}": "700x60"},
    "PgqConsumerDetached": {f"pgq_consumer_detached{{{C}}}": "1x60"},
    "PgqConsumerDisconnected": {f"pgq_consumer_connected{{{C}}}": "0x60"},
    "PgqBatchWithoutProgress": {f"pgq_oldest_batch_seconds{{{C}}}": "1000x60"},
    "PgqCrashes": {f"pgq_batch_attempts{{{C}}}": "2x60"},
    "PgqEventsUnclaimed": {f"pgq_inflight_oldest_seconds{{{C}}}": "700x60"},
    "PgqLongClaim": {f"pgq_inflight_oldest_claim_seconds{{{C}}}": "7200x60"},
    "PgqFrontLags": {f"pgq_inflight_front_lag_seconds{{{C}}}": "700x60"},
    "PgqManyWaiting": {f'pgq_inflight{{{C},state="waiting"}}': "20000x60"},
    "PgqDeadEvents": {f"pgq_dead_events{{{C}}}": "0+1x60"},
    "PgqManyRetries": {f"pgq_retry_events{{{C}}}": "10000x60"},
    "PgqRotationOverdue": {f"pgq_rotation_overdue_seconds{{{Q}}}": "7200x60"},
    "PgqConsumerHoldsRotation": {f"pgq_consumer_held_seconds{{{C}}}": "90000x60"},
    "PgqOldTransaction": {f"pgq_oldest_transaction_seconds{{{D}}}": "7200x60"},
    "PgqNotifyQueueFull": {f"pgq_notify_queue_usage_ratio{{{D}}}": "0.6x60"},
    "PgqQueuePaused": {f"pgq_queue_paused{{{Q}}}": "1x120"},
}
# Where two things come together that would each be an alert.
QUIET = {
    "the events of a paused queue": {
        f"pgq_queue_paused{{{Q}}}": "1x50",
        f"pgq_new_events{{{Q}}}": "5x50",
    },
    "a consumer that has nothing to do": {
        f"pgq_consumer_lag_seconds{{{C}}}": "700x60",
        f"pgq_consumer_last_seen_seconds{{{C}}}": "700x60",
        f"pgq_pending_events{{{C}}}": "0x60",
    },
    "a standby": {
        f'pgq_ticker_active{{{D},instance="standby"}}': "0x60",
        f'pgq_ticker_last_poll_age_seconds{{{D},instance="standby"}}': "100x60",
    },
}


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: apt-get install prometheus (Debian, Ubuntu)"
    return found


def promtool(*args: object) -> str:
    done = subprocess.run(
        [program("promtool"), *map(str, args)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def firing(minutes: int, *names: str, **changed: str) -> dict[str, Any]:
    """Return a test for promtool: at this minute these alerts fire, and no other."""
    series = {**HEALTHY, **changed}
    sample = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in names]
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": query, "eval_time": f"{minutes}m", "exp_samples": sample},
        ],
    }


def test_promtool_takes_the_rules_and_the_configuration() -> None:
    promtool("check", "rules", ALERTS)
    promtool("check", "config", CONFIG)


def test_each_alert_fires_in_its_trouble_and_no_other_does(tmp_path: Path) -> None:
    assert list(TROUBLE) == list(alerts())
    tests = [firing(50, **change) for change in QUIET.values()]
    for name, change in TROUBLE.items():
        tests.append(firing(62 if name == "PgqQueuePaused" else 40, name, **change))
    tests.append({**firing(40, "PgqNoTicker"), "input_series": []})  # a ticker that is gone
    file = tmp_path / "test.json"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "tests": tests}))
    promtool("test", "rules", file)


@pytest.fixture
def exposed(dsn: str, client: pgqpy.Client) -> Iterator[list[str]]:
    """The addresses of a ticker and of a consumer that have worked."""
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    registry = CollectorRegistry()
    consumer = Billing(dsn)
    expose_metrics(consumer, registry)
    server, thread = start_http_server(0, "127.0.0.1", registry)
    running = Running(consumer)
    daemon = Daemon(dsn, gauge_period=0.1)
    try:
        client.insert_event("orders", "placed", "1")
        eventually(lambda: consumer.counts().events == 1)
        ticker = daemon.wait_for("started")["http"]
        yield [ticker, f"127.0.0.1:{server.server_port}"]
    finally:
        running.stop()
        daemon.stop()
        server.shutdown()
        thread.join()
        server.server_close()


def test_promtool_finds_no_fault_with_the_names_that_are_exposed(exposed: list[str]) -> None:
    for where in exposed:
        page = urllib.request.urlopen(f"http://{where}/metrics").read()
        done = subprocess.run(
            [program("promtool"), "check", "metrics"], input=page, capture_output=True, check=False
        )
        lines = (done.stdout + done.stderr).decode().splitlines()
        assert [line for line in lines if line.startswith("pgq_")] == []


@pytest.fixture
def prometheus(exposed: list[str], tmp_path: Path) -> Iterator[str]:
    """A Prometheus that scrapes them, with our rules; where it listens."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "pgqpy", "static_configs": [{"targets": exposed}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    command = [
        program("prometheus"),
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            where = eventually(lambda: address(log))
            eventually(lambda: is_ready(where))
            yield where
        finally:
            process.terminate()


def address(log: Path) -> str:
    found = re.search(r'msg="Listening on" address=(\S+)\n', log.read_text())
    return found[1] if found else ""


def is_ready(where: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{where}/-/ready") as answer:
            return bool(answer.status == HTTPStatus.OK)
    except urllib.error.HTTPError:
        return False


def get(where: str, path: str, **params: str) -> Any:
    url = f"http://{where}/api/v1/{path}?{urllib.parse.urlencode(params)}"
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)["data"]


def test_a_real_prometheus_evaluates_the_rules_and_the_board(prometheus: str) -> None:
    def result(query: str) -> Any:
        return get(prometheus, "query", query=query)["result"]

    eventually(lambda: result("pgq_consumer_lag_seconds"))
    eventually(lambda: result("pgq_consumer_handler_seconds_count == 1"))

    def evaluated() -> bool:
        rules = [rule for group in get(prometheus, "rules")["groups"] for rule in group["rules"]]
        assert len(rules) == len(alerts())
        assert not [rule["lastError"] for rule in rules if rule.get("lastError")]
        return all(rule["health"] == "ok" for rule in rules)

    eventually(evaluated)
    for query in board_queries():
        get(prometheus, "query", query=query)
    eventually(lambda: get(prometheus, "alerts")["alerts"] == [])  # PgqNoTicker was pending
