"""The page of a consumer shows when its retried events are due."""

from __future__ import annotations

import pgqpy
from pgqpy.dashboard.render import linker
from tests.dashboard.conftest import Site, checked

link = linker("")


def test_the_consumer_shows_when_retried_events_are_due(site: Site, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    client.insert_events("orders", [("t", "a"), ("t", "b")])
    client.tick_queue("orders")
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    client.event_retry_many(batch, [(each, 1800) for each in client.get_batch_events(batch)])
    browser = site()
    checked(browser)
    answer = browser.get(link("/consumer", queue="orders", consumer="billing"))
    assert "<dt>due within 1 h</dt><dd>2 events</dd>" in answer.text
