"""A consumer that waits while nobody ticks says so."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqpy.consumers import missing_ticker
from pgqpy.consumers.missing_ticker import CHECK_EVERY, WARN_EVERY, MissingTicker
from pgqpy.records import QueueInfo
from tests.support.waiting import eventually

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def queue_info(**change: Any) -> QueueInfo:
    """Return a queue whose events wait for an hour."""
    info = QueueInfo(
        queue_name="orders",
        queue_ntables=3,
        queue_cur_table=0,
        queue_rotation_period=2 * HOUR,
        queue_switch_time=NOON,
        queue_external_ticker=False,
        queue_ticker_paused=False,
        queue_ticker_max_count=500,
        queue_ticker_max_lag=3 * SECOND,
        queue_ticker_idle_period=MINUTE,
        ticker_lag=HOUR,
        ev_per_sec=None,
        ev_new=5,
        last_tick_id=7,
    )
    return info._replace(**change)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_looks_after_a_while_complains_at_the_second_look_and_then_rarely() -> None:
    clock = Clock()
    check = MissingTicker(clock)
    looks: list[str | None] = []
    for _ in range(3):
        assert not check.check_due
        clock.now += CHECK_EVERY
        if check.check_due:
            looks.append(check.warning([queue_info()]))
    assert looks == [None, "last tick 3600 s ago, 5 event(s) wait"]
    clock.now += WARN_EVERY - CHECK_EVERY
    assert check.check_due


def test_a_batch_puts_the_look_off() -> None:
    clock = Clock()
    check = MissingTicker(clock)
    clock.now += CHECK_EVERY
    check.batch_came()
    assert not check.check_due


@pytest.mark.parametrize("change", [{"last_tick_id": 8}, {"ticker_lag": SECOND}])
def test_a_queue_that_is_ticked_between_two_looks_is_fine(change: dict[str, Any]) -> None:
    check = MissingTicker()
    seen = [check.warning([queue_info(**each)]) for each in ({}, change, {})]
    assert seen == [None, None, None]


@pytest.mark.parametrize(
    ("change", "late"),
    [
        ({}, True),
        ({"ticker_lag": None, "last_tick_id": None}, True),
        ({"ticker_lag": 12 * SECOND}, False),
        ({"ticker_lag": 14 * SECOND}, True),
        ({"ticker_lag": 2 * MINUTE, "ev_new": 0}, False),  # nothing to tick for
        ({"ev_new": 0}, True),
        ({"queue_ticker_paused": True}, False),
        ({"queue_external_ticker": True}, False),
    ],
)
def test_a_queue_is_late_when_a_ticker_would_have_ticked_it(
    change: dict[str, Any], late: bool
) -> None:
    assert missing_ticker.is_late(queue_info(**change)) is late


def test_a_consumer_without_a_ticker_warns_once(queue, make, connection, log, monkeypatch):
    monkeypatch.setattr(missing_ticker, "CHECK_EVERY", 0.0)
    queue.client.insert_event("orders", "test", "waits")
    make.start(lambda event: None)
    eventually(lambda: "consumer billing of queue orders runs" in log.text)
    assert "no ticker" not in log.text
    connection.execute("update pgq.tick set tick_time = now() - interval '1 hour'")
    eventually(lambda: "no ticker seems to run" in log.text)
    queue.tick()
    queue.wait_until_finished()
    warnings = [record.getMessage() for record in log.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    for words in ("consumer billing of queue orders", "1 event(s) wait", "pgqpy ticker run"):
        assert words in warnings[0]
