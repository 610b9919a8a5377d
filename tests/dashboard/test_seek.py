"""Moving a consumer: what it skips or repeats is said first, and the change is noted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy import calls
from pgqpy.dashboard.page import SETTINGS
from pgqpy.dashboard.render import linker
from tests.dashboard.conftest import Operator, Site, fields_of, outcomes, post

PLACE = {"queue": "orders", "consumer": "billing"}
link = linker("")


@pytest.fixture
def ticks(client: pgqpy.Client, new_orders: str) -> list[int]:
    """Five ticks of orders with an event between two; billing has finished two of the events."""
    for number in range(4):
        client.insert_event(new_orders, "new", str(number))
        client.tick_queue("orders")
    for _ in range(2):
        finish(client)
    return [each.tick_id for each in client.call(calls.ticks.get_tick_info("orders"))]


def finish(client: pgqpy.Client) -> list[str | None]:
    """Return what the next batch has, and finish it."""
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    found = [event.data for event in client.get_batch_events(batch)]
    client.finish_batch(batch)
    return found


def at(client: pgqpy.Client) -> int | None:
    return client.get_consumer_info("orders", "billing")[0].last_tick


def ask(browser: Any, **place: object) -> Any:
    return browser.get(link("/consumer/seek", **{**PLACE, **place}))


def fields(page: str) -> dict[str, str]:
    """Return the hidden fields of the form that moves the consumer."""
    form = page.partition('action="/change/seek"')[2].partition("</form>")[0]
    found = fields_of(form)
    assert found.pop("token")
    return found


def test_a_move_back_says_what_comes_again(
    operator: Operator, client: pgqpy.Client, ticks: list[int]
) -> None:
    browser = operator()
    assert "/consumer/seek?" in browser.get(link("/consumer", **PLACE)).text
    page = ask(browser, to="beginning").text
    assert "About 2 event(s) come again" in page
    assert f"ticks {ticks[0]} to {ticks[2]}" in page
    assert at(client) == ticks[2]
    moved = post(browser, "seek", **fields(page))
    assert moved.headers["location"] == link("/consumer", **PLACE)
    assert at(client) == ticks[0]
    assert finish(client) == ["0"]
    told = f"moved from tick {ticks[2]} to {ticks[0]}; dropped 0 that waited"
    assert outcomes(client) == [("anna", "seek", told)]
    (change,) = client.call(calls.history.get_changes())
    assert (change.queue, change.consumer) == tuple(PLACE.values())
    assert change.arguments == {"tick": str(ticks[0])}


@pytest.mark.parametrize("to", ["end", "tick", "time"])
def test_a_move_on_says_what_is_skipped(
    operator: Operator,
    client: pgqpy.Client,
    ticks: list[int],
    connection: psycopg.Connection[Any],
    to: str,
) -> None:
    old = "update pgq.tick set tick_time = tick_time - interval '1 day' where tick_id < %s"
    connection.execute(old, [ticks[3]])
    time = client.call(calls.ticks.get_tick_info("orders"))[3].tick_time - timedelta(hours=1)
    number, tick = {"end": (2, ticks[4]), "tick": (1, ticks[3]), "time": (0, ticks[2])}[to]
    browser = operator()
    page = ask(browser, to=to, tick=ticks[3], time=f"{time:%Y-%m-%dT%H:%M}").text
    said = f"About {number} event(s) that it has not finished are skipped"
    assert (said if number else "No event is skipped, and none comes again") in page
    assert fields(page)["tick"] == str(tick)
    assert post(browser, "seek", **fields(page)).is_redirect
    assert at(client) == tick


def test_events_of_a_long_transaction_are_counted(
    operator: Operator, client: pgqpy.Client, ticks: list[int], dsn: str
) -> None:
    with pgqpy.connect(dsn) as slow, slow.transaction():
        slow.insert_event("orders", "late", "x")
        client.tick_queue("orders")
        while client.get_consumer_info("orders", "billing")[0].pending_events:
            finish(client)
        stands = at(client)
    client.tick_queue("orders")
    page = ask(operator(), to="end").text
    assert "About 1 event(s) that it has not finished are skipped" in page
    page = ask(operator(hide_payloads=True), to="end").text
    assert "this role may not count them" in page
    assert at(client) == stands


def test_waiting_events_are_dropped_on_request(
    operator: Operator, client: pgqpy.Client, ticks: list[int]
) -> None:
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    for event in list(client.get_batch_events(batch)):
        client.event_retry(batch, event, 3600)
    client.finish_batch(batch)
    browser = operator()
    page = ask(browser, to="end").text
    assert post(browser, "seek", **fields(page), discard="yes").is_redirect
    assert "dropped 1 that waited" in (outcomes(client)[0][2] or "")
    assert client.call(calls.history.get_changes())[0].arguments == {
        "tick": str(ticks[4]),
        "discard": "yes",
    }


def test_a_consumer_that_came_past_the_place_is_not_moved_back(
    operator: Operator, client: pgqpy.Client, ticks: list[int]
) -> None:
    browser = operator()
    form = fields(ask(browser, to="tick", tick=ticks[3]).text)
    for _ in range(2):
        finish(client)
    answer = post(browser, "seek", **form)
    assert answer.status_code == 400
    assert f"the consumer is at tick {ticks[4]} by now" in answer.text
    assert at(client) == ticks[4]


def test_a_transaction_that_is_at_work_is_told(
    operator: Operator,
    client: pgqpy.Client,
    ticks: list[int],
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SETTINGS, "lock_timeout", "100ms")
    monkeypatch.setitem(SETTINGS, "statement_timeout", "60s")
    browser = operator()
    form = fields(ask(browser, to="end").text)
    with connection.transaction():
        connection.execute("select from pgq.registration for update")
        answer = post(browser, "seek", **form)
    assert answer.status_code == 400
    assert "a transaction is at work for billing" in answer.text
    assert at(client) == ticks[2]


NO_PLACES = [
    ({"to": "tick"}, "name the tick"),
    ({"to": "tick", "tick": "x"}, "tick is no number"),
    ({"to": "tick", "tick": "99"}, "there is no tick 99; the last one before it is"),
    ({"to": "tick", "tick": "0"}, "choose the beginning, or a later place"),
    ({"to": "time"}, "name the time"),
    ({"to": "time", "time": "yesterday"}, "name the time"),
    ({"to": "time", "time": "2000-01-01T00:00"}, "choose the beginning, or a later place"),
    ({"to": "nowhere"}, "is no place"),
]


@pytest.mark.usefixtures("ticks")
def test_a_place_that_is_not_there_is_told(operator: Operator) -> None:
    browser = operator()
    for place, words in NO_PLACES:
        answer = ask(browser, **place)
        assert answer.status_code == 400
        assert words in answer.text


def test_a_reader_of_ticks_is_not_moved(
    operator: Operator, client: pgqpy.Client, ticks: list[int]
) -> None:
    client.register_consumer("orders", "lake")
    client.call(calls.ticks.advance_subscription("orders", "lake", ticks[-1], ticks[-1]))
    browser, names = operator(), {"queue": "orders", "consumer": "lake"}
    page = browser.get(link("/consumer/seek", **names, to="beginning")).text
    assert "It reads ranges of ticks" in page
    assert "/change/seek" not in page
    assert post(browser, "seek", **names, tick=str(ticks[0]), back="yes").status_code == 409


@pytest.mark.usefixtures("ticks")
def test_a_viewer_sees_what_a_move_would_do_and_no_button(site: Site) -> None:
    browser = site()
    assert "/consumer/seek" not in browser.get(link("/consumer", **PLACE)).text
    page = ask(browser, to="beginning").text
    assert "About 2 event(s) come again" in page
    assert "/change/seek" not in page
    assert ask(browser, consumer="nope").status_code == 404
