"""The lag of a consumer has one meaning on all pages."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from tests.dashboard.conftest import Site

DAY_LATER = "update pgq.tick set tick_time = tick_time - interval '25 hours'"
PLACES = {
    "/": 'data-name="worst lag">{}</td>',
    "/queue?queue=orders": 'data-name="lag">{}</td>',
    "/consumer?queue=orders&consumer=billing": "<dt>lag</dt><dd>{}</dd>",
}


@pytest.mark.usefixtures("new_orders")
@pytest.mark.parametrize(("waiting", "shown"), [(0, "0 s"), (1, "1 d 1 h")])
def test_lag_is_zero_while_nothing_waits_and_else_the_age_of_the_finished_tick(
    site: Site,
    client: pgqpy.Client,
    connection: psycopg.Connection[Any],
    waiting: int,
    shown: str,
) -> None:
    client.insert_events("orders", [("placed", "data")] * waiting)
    client.tick_queue("orders")
    connection.execute(DAY_LATER)
    browser = site()
    for path, place in PLACES.items():
        assert place.format(shown) in browser.get(path).text


@pytest.mark.usefixtures("new_orders")
def test_a_queue_says_that_ok_is_about_its_ticks(site: Site, client: pgqpy.Client) -> None:
    client.set_queue_config("orders", "ticker_paused", "true")
    browser = site()
    assert 'data-name="ticks"><span class="badge warn">paused<' in browser.get("/").text
    assert ">ticks: paused<" in browser.get("/queue?queue=orders").text


def test_a_reader_of_ticks_for_which_nothing_waits_has_no_lag(
    site: Site, client: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    client.create_queue("orders")
    client.tick_queue("orders")
    tick = client.call(calls.ticks.get_tick_info("orders"))[-1].tick_id
    client.register_consumer("orders", "lake")
    client.call(calls.ticks.advance_subscription("orders", "lake", tick, tick))
    connection.execute(DAY_LATER)
    assert site().get("/readers").text.count('data-name="lag">0 s</td>') == 1
    client.insert_event("orders", "placed", "{}")
    client.tick_queue("orders")
    assert site().get("/readers").text.count('data-name="lag">1 d 1 h</td>') == 1
