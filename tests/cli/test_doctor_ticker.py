"""The doctor on tickers: pgqpy's, pgqd, and external tickers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import pgqpy
from pgqpy.doctor import queues
from tests.cli.support import Connect, Examine
from tests.cli.test_doctor_checks import only

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def queue(**change: object) -> dict[str, object]:
    return {
        "queue_name": "q",
        "paused": False,
        "external": False,
        "max_lag": 3 * SECOND,
        "idle_period": MINUTE,
        "ticker_lag": SECOND,
        "ev_new": 0,
        "untouched": False,
        "ticker": None,
        "extension": False,
        **change,
    }


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"ticker": 7}, "ok"),
        ({}, "warn"),  # perhaps pgqd ticks
        ({"untouched": True}, "fail"),
        ({"untouched": True, "ticker": 7}, "ok"),
        ({"ticker_lag": 2 * MINUTE}, "warn"),  # an idle queue may wait that long
        ({"ticker_lag": 3 * MINUTE}, "fail"),
        ({"ticker_lag": 3 * MINUTE, "ticker": 7}, "fail"),
        ({"ticker_lag": 10 * SECOND, "ev_new": 5}, "warn"),
        ({"ticker_lag": 20 * SECOND, "ev_new": 5}, "fail"),
        ({"ticker_lag": 20 * SECOND, "ev_new": 5, "ticker": 7}, "fail"),
        ({"ticker_lag": None}, "fail"),
        ({"ticker_lag": HOUR, "ev_new": 5, "paused": True}, "ok"),
        ({"external": True}, "ok"),
        ({"ticker_lag": 10 * SECOND, "ev_new": 5, "external": True}, "ok"),
        ({"ticker_lag": HOUR, "ev_new": 5, "external": True, "paused": True}, "ok"),
        ({"ticker_lag": 20 * SECOND, "ev_new": 5, "external": True}, "warn"),
        ({"ticker_lag": 3 * MINUTE, "external": True}, "warn"),
        ({"ticker_lag": None, "external": True}, "warn"),
        ({"extension": True}, "ok"),  # pgqd ticks
        ({"queue_name": None}, "ok"),
        ({"queue_name": None, "ticker": 7}, "ok"),
    ],
)
def test_ticks(change: dict[str, Any], level: str) -> None:
    assert only(queues.judge_ticks([queue(**change)])).level == level


def test_an_external_ticker_that_does_not_tick_is_reported_beside_pgqpys_ticker() -> None:
    rows = [
        queue(ticker="pid 7"),
        queue(queue_name="copy", ticker_lag=HOUR, ev_new=2, external=True),
    ]
    warned, fine = queues.judge_ticks(rows)
    assert (warned.level, fine.level) == ("warn", "ok")
    assert "the external ticker of queue copy does not tick" in warned.what
    assert "the last tick of queue copy is 1 h old, 2 event(s) wait" in warned.what
    assert "pgqpy queue set copy external_ticker=false" in warned.remedy
    assert "every other queue is ticked in time" in fine.what


def test_many_late_queues_are_one_failure_without_a_ticker() -> None:
    rows = [queue(queue_name=f"q{number}", ticker_lag=HOUR) for number in range(8)]
    found = only(queues.judge_ticks(rows))
    assert "and 3 more" in found.what
    assert found.remedy == "pgqpy ticker run"


def test_ticker_that_leaves_one_queue_out(
    examine: Examine, client: pgqpy.Client, connect: Connect
) -> None:
    client.create_queue("orders")
    daemon = connect(application_name="a daemon")
    daemon.execute("select pg_advisory_lock(7366513, 0)")
    pid = daemon.info.backend_pid
    who = f"a daemon, server process {pid}, role postgres"
    assert examine()[1]["ticker"] == (
        "ok",
        f"a ticker runs ({who}), every queue is ticked in time; \n",
    )
    daemon.execute("update pgq.tick set tick_time = now() - interval '1 hour'")
    client.insert_event("orders", "type", "data")
    code, worst = examine()
    assert (code, worst["ticker"][0]) == (1, "fail")
    for words in (f"server process {pid}", "orders", "is 1 h", "1 event(s) wait"):
        assert words in worst["ticker"][1]
    daemon.execute("select pg_advisory_unlock(7366513, 0)")
    for words in ("no ticker", "pgqpy ticker run"):
        assert words in examine()[1]["ticker"][1]
