"""Following new events: each once, read once for all who follow, hidden where payloads are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy.dashboard import tails
from pgqpy.dashboard.tails import Filter, Tails
from pgqpy.errors import QueueNotFound
from tests.dashboard.conftest import Site
from tests.support.waiting import eventually

ALL = Filter("orders", None)
WAITS = "select from pg_locks where not granted and relation = 'pgq.event_1'::regclass"
PAGE = "/events/follow?queue=orders"


@pytest.fixture(autouse=True)
def _restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tail rests: each poll reads."""
    monkeypatch.setattr(tails, "REST", 0.0)


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


def ids(rows: list[tails.ShownEvent]) -> list[int]:
    return [row.id for row in rows]


def last_tick(client: pgqpy.Client) -> int | None:
    return client.get_queue_info("orders")[0].last_tick_id


def test_each_event_comes_once_the_newest_first(orders: pgqpy.Client) -> None:
    followed = Tails()
    known = insert(orders, 3)
    assert ids(followed.newest(orders, ALL, None)) == known
    for count in (2, 0, 5):
        known = insert(orders, count) + known
        assert ids(followed.newest(orders, ALL, last_tick(orders))) == known
    known = insert(orders, 98) + known
    assert ids(followed.newest(orders, ALL, None)) == known[: tails.ROWS]


def test_events_of_a_long_transaction_come_when_they_are_visible(
    orders: pgqpy.Client, dsn: str
) -> None:
    followed = Tails()
    with pgqpy.connect(dsn) as slow:
        with slow.transaction():
            late = slow.insert_event("orders", "late", "x")
            known = insert(orders, 2)
            assert ids(followed.newest(orders, ALL, None)) == known
        assert ids(followed.newest(orders, ALL, None)) == known
        orders.tick_queue("orders")
        assert ids(followed.newest(orders, ALL, None)) == [late, *known]


def test_only_what_came_since_the_last_look_is_read(
    orders: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    followed = Tails()
    known = insert(orders, 3)
    followed.newest(orders, ALL, None)
    connection.execute("truncate pgq.event_1_0, pgq.event_1_1, pgq.event_1_2")
    known = insert(orders, 1) + known
    assert ids(followed.newest(orders, ALL, None)) == known


def test_a_queue_without_a_new_tick_is_not_asked(orders: pgqpy.Client, dsn: str) -> None:
    followed, known = Tails(), insert(orders, 3)
    with pgqpy.connect(dsn) as reader:
        followed.newest(reader, ALL, None)
    assert reader.connection.closed
    assert ids(followed.newest(reader, ALL, last_tick(orders))) == known
    with pytest.raises(Exception, match="closed"):
        followed.newest(reader, ALL, -1)


def test_all_who_follow_share_one_poll(
    orders: pgqpy.Client, dsn: str, connection: psycopg.Connection[Any]
) -> None:
    followed, known = Tails(), insert(orders, 3)
    tick = last_tick(orders)
    with pgqpy.connect(dsn) as gone:
        pass  # it cannot ask
    with ThreadPoolExecutor(8) as pool, pgqpy.connect(dsn) as reader:
        with connection.transaction():  # the first one waits for this lock
            connection.execute("lock table pgq.event_1 in access exclusive mode")
            polls = [pool.submit(followed.newest, reader, ALL, tick)]
            eventually(lambda: connection.execute(WAITS).fetchall())
            polls += [pool.submit(followed.newest, gone, ALL, tick) for _ in range(7)]
        assert [ids(each.result()) for each in polls] == [known] * 8


def test_a_tail_rests_after_a_poll(orders: pgqpy.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "REST", 1e9)
    followed, known = Tails(), insert(orders, 1)
    assert ids(followed.newest(orders, ALL, None)) == known
    more = insert(orders, 1)
    assert ids(followed.newest(orders, ALL, None)) == known
    followed.clear()  # nobody asked meanwhile
    assert ids(followed.newest(orders, ALL, None)) == more + known


def test_it_begins_anew_where_the_history_is_another_one(
    orders: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    followed = Tails()
    insert(orders, 3)
    followed.newest(orders, ALL, None)
    orders.drop_queue("orders")
    orders.create_queue("orders")
    assert ids(followed.newest(orders, ALL, None)) == []
    known = insert(orders, 2)
    assert ids(followed.newest(orders, ALL, None)) == known
    connection.execute("update pgq.tick set tick_time = tick_time - interval '1 hour'")
    known = insert(orders, 1) + known
    assert ids(followed.newest(orders, ALL, None)) == known


def test_filters_have_tails_of_their_own(orders: pgqpy.Client) -> None:
    followed = Tails()
    paid, new = insert(orders, 2, "order.paid"), insert(orders, 2, "order.new")
    for _ in range(2):
        assert ids(followed.newest(orders, Filter("orders", "order.new"), None)) == new
        assert ids(followed.newest(orders, Filter("orders", "order.*"), None)) == new + paid
        assert ids(followed.newest(orders, Filter("orders", None, (("extra1", "x"),)), None)) == []


def test_what_nobody_follows_any_more_is_forgotten(
    orders: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = Tails()
    followed.newest(orders, ALL, None)
    followed.newest(orders, Filter("orders", "new"), None)
    assert len(followed._tails) == 2
    monkeypatch.setattr(tails, "FORGET", 0.0)
    followed.newest(orders, ALL, None)
    assert list(followed._tails) == [ALL]


def test_a_tail_too_many_drops_the_one_asked_for_longest_ago(
    orders: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "MOST_TAILS", 2)
    followed = Tails()
    first, second, third = (Filter("orders", type_) for type_ in ("a", "b", "c"))
    for each in (first, second, first, third):
        followed.newest(orders, each, None)
    assert list(followed._tails) == [first, third]


def test_a_failure_is_told_to_all_who_ask_while_it_rests(
    orders: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "REST", 1e9)
    followed = Tails()
    for _ in range(2):
        with pytest.raises(QueueNotFound):
            followed.newest(orders, Filter("nope", None), None)


def test_long_texts_are_cut(orders: pgqpy.Client) -> None:
    orders.insert_event("orders", "new", "x" * 10_000, extra1="y" * 5000)
    orders.tick_queue("orders")
    (row,) = Tails().newest(orders, ALL, None)
    assert (len(row.data), row.length, len(row.extras["extra1"])) == (4096, 10_000, 1000)


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


def test_a_queue_that_is_not_there_is_told(site: Site) -> None:
    assert site().get("/events/follow?queue=nope").status_code == 404
    assert site().get("/events/follow").status_code == 400
