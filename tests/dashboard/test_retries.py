"""The page of a consumer shows when its retried events are due."""

from __future__ import annotations

import pytest

import pgqpy
from pgqpy import calls
from pgqpy.dashboard.render import linker
from tests.dashboard.conftest import Site, checked

link = linker("")


def test_the_consumer_shows_when_retried_events_are_due(site: Site, orders: pgqpy.Client) -> None:
    text = with_retries(site, orders, 2)
    assert "<dt>due within 1 h</dt><dd>2 events</dd>" in text
    assert "are counted" not in text


def test_the_consumer_says_that_not_all_of_its_many_retried_events_are_counted(
    site: Site, orders: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqpy.dashboard.pages.consumer.COUNTED", 5)
    text = with_retries(site, orders, 6)
    assert "<dt>due within 1 h</dt><dd>5 events</dd>" in text
    assert "<p>Only 5 of the events are counted.</p>" in text


def with_retries(site: Site, orders: pgqpy.Client, count: int) -> str:
    """Retry so many events of a consumer in half an hour, and return its page."""
    orders.insert_events("orders", [("t", "a")] * count)
    orders.tick_queue("orders")
    batch = orders.next_batch("orders", "billing")
    assert batch is not None
    orders.call(
        calls.consume.event_retry_many(
            batch, [(each, 1800) for each in orders.get_batch_events(batch)]
        )
    )
    browser = site()
    checked(browser)
    return browser.get(link("/consumer", queue="orders", consumer="billing")).text
