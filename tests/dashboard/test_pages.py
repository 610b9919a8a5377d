"""What the pages show, and that no text from the database becomes HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from pgqpy.dashboard.page import Database
from pgqpy.dashboard.pages import queue as queue_pages
from pgqpy.dashboard.render import linker
from tests.dashboard.conftest import Site, checked, kill
from tests.support.hostile import lay_trap, trapped
from tests.support.waiting import eventually

PATHS = (
    "/",
    "/queue",
    "/consumer",
    "/consumer/seek",
    "/dead",
    "/events",
    "/events/follow",
    "/cron",
    "/readers",
    "/tickers",
    "/changes",
)
NAMELESS = {"/tickers", "/changes", "/readers"}
link = linker("")
EVIL = "\"><script>alert(1)</script>'"
PAYLOAD = "<img src=x onerror=alert(2)>\x1b[31m\u202e"


@pytest.fixture
def evil(client: pgqpy.Client) -> pgqpy.Client:
    """A queue, a consumer, a cron entry and a dead event with names that are HTML."""
    client.create_queue(EVIL)
    client.register_consumer(EVIL, EVIL)
    kill(client, EVIL, queue=EVIL, consumer=EVIL, text=PAYLOAD)
    client.add_cron(EVIL, EVIL, EVIL, schedule="0 7 * * *")
    return client


@pytest.mark.usefixtures("evil")
def test_names_and_texts_stay_text(site: Site) -> None:
    browser = site()
    checked(browser)
    for path in PATHS:
        answer = browser.get(link(path, queue=EVIL, consumer=EVIL))
        assert answer.status_code == 200
        for text in (EVIL, "<script>alert", "\x1b", "\u202e", PAYLOAD, "<img src=x"):
            assert text not in answer.text
        assert "&lt;script&gt;alert" in answer.text or path in NAMELESS
    answer = browser.get(link("/queue", queue=f"no {EVIL}"))
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text


def test_the_overview_tells_what_is_wrong_first_with_its_remedy(
    site: Site, orders: pgqpy.Client
) -> None:
    kill(orders, "order.new")
    page = checked(site())
    assert page.index("billing of orders has 1 dead event(s)") < page.index("1 queue<")
    assert "pgqpy event retry orders billing --all" in page


def test_the_queues_are_sorted_searched_and_in_pages(site: Site, client: pgqpy.Client) -> None:
    for number in range(55):
        client.create_queue(f"q{number:02}")
    client.register_consumer("q42", "billing")
    client.insert_event("q42", "x", "y")
    browser = site()
    names = browser.get("/?sort=name").text
    assert names.index(">q00<") < names.index(">q49<")
    assert ">q50<" not in names
    assert ">q50<" in browser.get("/?sort=name&page=2").text
    assert browser.get("/?q=Q1").text.count('<th scope="row">') == 10
    for page in ("99999", "123456789abc", "1" * 5000):
        assert browser.get(f"/?page={page}&sort=nope").status_code == 200
    assert "No queue has such a name" in browser.get("/?q=zz").text


def test_the_queue_shows_all_that_it_has_and_the_consumer_who_works_for_it(
    site: Site, orders: pgqpy.Client
) -> None:
    orders.insert_event("orders", "x", "y")
    orders.tick_queue("orders")
    batch = orders.next_batch("orders", "billing")
    assert batch is not None
    page = site().get("/consumer?queue=orders&consumer=billing").text
    assert f"batch {batch.id}" in page
    assert "pending events" in page
    page = site().get("/queue?queue=orders").text
    assert '<svg class="ruler"' in page
    assert 'class="batch"' in page
    assert page.count('<g class="table ') == 3
    assert "/consumer?queue=orders&amp;consumer=billing" in page
    assert "rotation_period" in page


def test_a_shared_consumer_shows_what_is_in_flight_and_its_worst_keys(
    site: Site, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "letters", shared=True, key="extra1")
    client.insert_event("orders", "x", "y", extra1="ann")
    client.receive("orders", "letters", wait=0, key="extra1")
    for _ in range(3):
        client.insert_event("orders", "x", "y", extra1="ann")
    assert client.receive("orders", "letters", wait=0, key="extra1") == []
    page = site().get("/consumer?queue=orders&consumer=letters").text
    assert "<dt>mode</dt><dd>shared by extra1</dd>" in page
    assert "<dt>waiting</dt><dd>3</dd>" in page
    assert "<dt>events to handle</dt><dd>4</dd>" in page
    assert '<th scope="row">receivers</th><td class="n" data-name="claimed">1</td>' in page
    assert '<th scope="row">ann</th><td class="n" data-name="waiting">3</td>' in page
    assert 'data-name="in flight">4</td>' in site().get("/queue?queue=orders").text


def test_readers_of_ticks_are_shown_with_their_pins(site: Site, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "lake")
    client.register_consumer("orders", "billing")
    for _ in range(2):
        client.insert_event("orders", "x", "y")
        client.tick_queue("orders")
    first, *_, last = [tick.tick_id for tick in client.call(calls.ticks.get_tick_info("orders"))]
    client.call(calls.ticks.pin_range("orders", "lake", first, last))
    page = site().get("/readers").text
    assert f"ticks {first} to {last}" in page
    assert "lake" in page
    assert "billing" not in page


WRONG = {
    "/queue?queue=nope": 404,
    "/consumer?queue=orders&consumer=nope": 404,
    "/dead?queue=orders&consumer=nope": 404,
    "/queue": 400,
    "/dead?queue=orders&consumer=billing&before=x": 400,
    "/dead?queue=orders&consumer=billing&before=99999999999999999999999": 400,
    "/queue?queue=a%00b": 404,
    "/events?queue=nope": 404,
    "/events/follow?queue=nope": 404,
    "/events/follow": 400,
    "/events?queue=orders&tick=999": 404,
    "/events?queue=orders&tick=x": 400,
    "/events?queue=orders&since=yesterday": 400,
    "/nope": 404,
}


@pytest.mark.usefixtures("new_orders")
def test_a_wrong_address_is_told(site: Site) -> None:
    browser = site()
    assert {path: browser.get(path).status_code for path in WRONG} == WRONG


def test_dead_events_are_grouped_filtered_and_in_pages(site: Site, orders: pgqpy.Client) -> None:
    kill(orders, *["order.new"] * 60, *["order.paid"] * 2, "")
    browser = site()
    page = browser.get("/dead?queue=orders&consumer=billing").text
    assert "63 dead events" in page
    assert page.count('<details class="event">') == 50
    paid = browser.get("/dead?queue=orders&consumer=billing&type=order.paid").text
    assert paid.count('<details class="event">') == 2
    none = browser.get("/dead?queue=orders&consumer=billing&type=nope").text
    assert "None of these matches" in none
    older = page.rpartition('<a rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert browser.get(older).text.count('<details class="event">') == 13


def ids(page: str) -> list[int]:
    """Return the ids of the events of a page, in its order."""
    return [int(each) for each in re.findall(r'<span class="id">(\d+)</span>', page)]


def test_events_are_found_by_tick_time_type_and_extras(site: Site, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    made = []
    for number in range(6):
        kind = "order.new" if number % 2 else "order.paid"
        made.append(client.insert_event("orders", kind, "{}", extra1=f"c{number // 2}"))
        client.tick_queue("orders")
    ticks = [tick.tick_id for tick in client.call(calls.ticks.get_tick_info("orders"))]
    browser = site()
    assert ids(browser.get("/events?queue=orders").text) == made[::-1]
    assert ids(browser.get("/events?queue=orders&type=order.new").text) == made[1::2][::-1]
    assert ids(browser.get("/events?queue=orders&type=order.*&extra1=c1").text) == made[2:4][::-1]
    assert ids(browser.get(f"/events?queue=orders&tick={ticks[4]}").text) == made[4:]
    assert ids(browser.get("/events?queue=orders&since=2000-01-01T00:00").text) == made
    later = browser.get("/events?queue=orders&since=2100-01-01T00:00").text
    assert ids(later) == []
    assert "No event" in later


def test_a_look_for_events_is_bounded_and_goes_on(
    site: Site, client: pgqpy.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_pages, "TICKS", 4)
    client.create_queue("orders")
    for number in range(12):
        client.insert_event("orders", "rare" if number == 10 else "x", "{}")
        client.tick_queue("orders")
    first = client.call(calls.ticks.get_tick_info("orders"))[0].tick_id
    browser, polls = site(), 1
    page = browser.get(f"/events?queue=orders&type=rare&tick={first}").text
    while not ids(page):
        polls += 1
        _, found, onward = page.partition('<a rel="next" href="')
        assert found
        page = browser.get(onward.partition('"')[0].replace("&amp;", "&")).text
    assert polls > 1
    assert len(ids(page)) == 1


@pytest.mark.usefixtures("evil")
def test_payloads_can_be_hidden(site: Site) -> None:
    assert "onerror" not in site(hide_payloads=True).get(link("/events", queue=EVIL)).text
    page = site(hide_payloads=True).get(link("/dead", queue=EVIL, consumer=EVIL)).text
    assert ">1 dead event.<" in page
    assert "onerror" not in page
    assert "Payloads are hidden" in page


@pytest.mark.parametrize(("roles", "sees"), [((), 0), (("pgq_reader",), 4)])
def test_a_login_without_rights_is_shown_less_and_told_why(
    site: Site,
    evil: pgqpy.Client,
    dsn: str,
    login: Callable[..., str],
    roles: tuple[str, ...],
    sees: int,
) -> None:
    browser = site(dsn=psycopg.conninfo.make_conninfo(dsn, user=login(*roles)))
    for path in ("/", "/queue", "/consumer", "/cron", "/tickers"):
        answer = browser.get(link(path, queue=EVIL, consumer=EVIL))
        assert answer.status_code == 200, answer.text
    page = browser.get(link("/dead", queue=EVIL, consumer=EVIL)).text
    assert page.count("onerror") == sees
    assert ("grant pgq_dashboard" in page) is (sees == 0)


def test_a_page_cannot_write_whatever_it_asks(evil: pgqpy.Client, dsn: str) -> None:
    """The role pgq_reader may delete dead events: only the session forbids it."""
    database = Database(dsn, hide_payloads=False)
    try:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            database._run(lambda asked: asked.client.delete_dead_events(EVIL, EVIL))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database._run(lambda asked: asked.client.create_queue("other"))
    finally:
        database.close()
    assert evil.call(calls.dead_events.get_dead_event_counts(EVIL, EVIL))[0].dead_events == 1


def test_a_database_without_the_schema_is_told_in_words(site: Site, empty_dsn: str) -> None:
    answer = site(dsn=empty_dsn).get("/")
    assert answer.status_code in {200, 503}
    told = "schema pgq is not installed in this database: run pgqpy schema install"
    assert told in answer.text


def test_no_page_calls_a_function_of_another_schema(
    site: Site, evil: pgqpy.Client, connection: psycopg.Connection[Any]
) -> None:
    lay_trap(connection)
    before = trapped(connection)
    browser = site()
    for path in PATHS:
        assert browser.get(link(path, queue=EVIL, consumer=EVIL)).status_code == 200
    checked(browser)
    assert trapped(connection) == before


@pytest.mark.parametrize(("count", "told"), [(2, 2), (6, 5)])
def test_the_consumer_shows_when_retried_events_are_due_and_that_not_all_are_counted(
    site: Site, orders: pgqpy.Client, monkeypatch: pytest.MonkeyPatch, count: int, told: int
) -> None:
    monkeypatch.setattr("pgqpy.dashboard.pages.consumer.COUNTED", 5)
    orders.insert_events("orders", [("t", "a")] * count)
    orders.tick_queue("orders")
    batch = orders.next_batch("orders", "billing")
    assert batch is not None
    orders.batch_retry(batch, 1800)
    browser = site()
    checked(browser)
    text = browser.get(link("/consumer", queue="orders", consumer="billing")).text
    assert f"<dt>due within 1 h</dt><dd>{told} events</dd>" in text
    assert ("<p>Only 5 of the events are counted.</p>" in text) is (count > told)


FOLLOW = "/events/follow?queue=orders"


def insert(client: pgqpy.Client, count: int, type_: str = "new") -> list[int]:
    """Insert events with a tick after them; return their ids, the newest first."""
    ids = [client.insert_event("orders", type_, str(number)) for number in range(count)]
    client.tick_queue("orders")
    return ids[::-1]


def test_long_texts_are_cut(site: Site, orders: pgqpy.Client) -> None:
    orders.insert_event("orders", "new", "x" * 10_000, extra1="y" * 5000)
    orders.tick_queue("orders")
    page = site().get(FOLLOW).text
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
    page = browser.get(f"{FOLLOW}&type=new").text
    assert [f'<span class="id">{each}</span>' in page for each in known] == [True, True]
    assert 'hx-sse:connect="/live/events/follow?queue=orders&amp;type=new"' in page
    assert '<noscript><meta http-equiv="refresh"' in page
    more = insert(orders, 1)
    reload = page.partition('<noscript><p><a href="')[2].partition('"')[0].replace("&amp;", "&")
    eventually(lambda: f'<span class="id">{more[0]}</span>' in browser.get(reload).text)


def test_payloads_stay_hidden(site: Site, orders: pgqpy.Client) -> None:
    insert(orders, 1, "secret")
    page = site(hide_payloads=True).get(FOLLOW)
    assert page.status_code == 200
    assert "secret" not in page.text
    assert "Events are hidden here" in page.text
