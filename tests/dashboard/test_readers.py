"""The page of readers of ticks: archives, Spark queries, pipelines."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import psycopg

import pgqpy
from pgqpy import calls
from tests.dashboard.conftest import Site


def cells(page: str) -> list[dict[str, str]]:
    """Return the rows of the table, by the names of their columns."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        {
            name: unescape(re.sub("<[^>]*>", "", text)).strip()
            for name, text in re.findall(r'data-name="([^"]+)">(.*?)</td>', row, re.DOTALL)
        }
        for row in body.split("<tr>")[1:]
    ]


def insert(client: pgqpy.Client) -> int:
    """Insert an event, and return the tick after it."""
    client.insert_event("orders", "placed", "{}")
    client.tick_queue("orders")
    return client.call(calls.ticks.get_tick_info("orders"))[-1].tick_id


def test_a_reader_for_which_nothing_waits_has_no_lag(
    site: Site, client: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    client.create_queue("orders")
    tick = insert(client)
    client.register_consumer("orders", "lake")
    client.call(calls.ticks.advance_subscription("orders", "lake", tick, tick))
    connection.execute("update pgq.tick set tick_time = now() - interval '1 hour'")
    (row,) = cells(site().get("/readers").text)
    assert row["lag"] == "0.0 s"
    insert(client)
    (row,) = cells(site().get("/readers").text)
    assert row["lag"].startswith("1 h")
