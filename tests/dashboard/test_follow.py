"""Following new events: the newest at each snapshot, hidden where payloads are."""

from __future__ import annotations

import pytest

import pgqpy
from tests.dashboard.conftest import Site
from tests.support.waiting import eventually

PAGE = "/events/follow?queue=orders"


@pytest.fixture
def orders(client: pgqpy.Client) -> pgqpy.Client:
    """A queue that nobody reads."""
    client.create_queue("orders")
    return client


def insert(client: pgqpy.Client, count: int, type_: str = "new") -> list[int]:
    """Insert events with a tick after them; return their ids, the newest first."""
    ids = [client.insert_event("orders", type_, str(number)) for number in range(count)]
    client.tick_queue("orders")
    return ids[::-1]


def test_long_texts_are_cut(site: Site, orders: pgqpy.Client) -> None:
    orders.insert_event("orders", "new", "x" * 10_000, extra1="y" * 5000)
    orders.tick_queue("orders")
    page = site().get(PAGE).text
    assert "x" * 4096 in page
    assert "x" * 4097 not in page
    assert "y" * 1000 in page
    assert "y" * 1001 not in page


def test_the_page_follows_and_links_to_itself(site: Site, orders: pgqpy.Client) -> None:
    known = insert(orders, 2)
    browser = site()
    assert (
        'href="/events/follow?queue=orders&amp;type=new"'
        in browser.get("/events?queue=orders&type=new").text
    )
    page = browser.get(f"{PAGE}&type=new").text
    assert [f'<span class="id">{each}</span>' in page for each in known] == [True, True]
    assert 'hx-sse:connect="/live/events/follow?queue=orders&amp;type=new"' in page
    assert '<noscript><meta http-equiv="refresh"' in page
    more = insert(orders, 1)
    reload = page.partition('<noscript><p><a href="')[2].partition('"')[0].replace("&amp;", "&")
    eventually(lambda: f'<span class="id">{more[0]}</span>' in browser.get(reload).text)


def test_payloads_stay_hidden(site: Site, orders: pgqpy.Client) -> None:
    insert(orders, 1, "secret")
    page = site(hide_payloads=True).get(PAGE)
    assert page.status_code == 200
    assert "secret" not in page.text
    assert "Events are hidden here" in page.text
