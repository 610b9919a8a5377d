"""What operators change: who may, what happens, and what the audit says of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

import pgqpy
from pgqpy import calls
from pgqpy.dashboard import changes, live
from pgqpy.dashboard.access import HeaderAccess, LoopbackAccess, PasswordAccess
from pgqpy.dashboard.app import Dashboard
from pgqpy.dashboard.changes import ACTIONS, DEAD
from pgqpy.dashboard.page import SETTINGS
from tests.dashboard.conftest import HOME, HOST, Operator, Site, kill, log_in, outcomes, post, token
from tests.support.waiting import eventually

NAMES = [*ACTIONS, *DEAD, "stop-dead"]
PLACE = {"queue": "orders", "consumer": "billing"}
WAITS_FOR_AUDIT = "select from pg_locks where not granted and relation = 'pgq.change'::regclass"


def dead(client: pgqpy.Client) -> int:
    """Count them."""
    return sum(
        each.dead_events
        for each in client.call(calls.dead_events.get_dead_event_counts("orders", "billing"))
    )


@pytest.fixture
def orders(orders: pgqpy.Client) -> pgqpy.Client:
    """A queue with a consumer and a cron entry."""
    orders.add_cron("report", "orders", "build", schedule="0 7 * * *")
    return orders


def test_only_operators_change_something(
    site: Site,
    with_logins: PasswordAccess,
    behind_proxy: HeaderAccess,
    operator: Operator,
    orders: pgqpy.Client,
) -> None:
    kill(orders, "order.new")
    form = {**PLACE, "name": "report", "type": "x", "setting": "ticker_paused", "value": "true"}
    stranger, vera, reader = site(with_logins), site(with_logins), operator(read_only=True)
    log_in(vera, "vera")
    proxied = site(behind_proxy)
    proxied.headers["x-user"] = "somebody"
    near = site(LoopbackAccess())
    for action in NAMES:
        asked = stranger.post(f"/change/{action}", data=form, headers={"origin": HOME})
        assert asked.status_code == 403
        for browser in (near, proxied, vera, reader):
            assert post(browser, action, **form).status_code == 403
    for browser in (vera, reader):
        assert "Pause" not in browser.get("/cron").text
    assert outcomes(orders) == []
    assert dead(orders) == 1


def test_a_change_needs_its_token_and_origin_and_is_no_get(
    operator: Operator, orders: pgqpy.Client
) -> None:
    browser, form = operator(), {**PLACE, "name": "report"}
    whole = {**form, "token": token(browser.get("/changes").text)}
    for path in (f"/change/{action}" for action in NAMES):
        assert browser.post(path, data=form, headers={"origin": HOME}).status_code == 403
        for origin in ("https://evil.example", "http://["):
            assert browser.post(path, data=whole, headers={"origin": origin}).status_code == 403
        assert browser.get(path, params=whole).status_code == 405
    assert outcomes(orders) == []


def test_a_cron_entry_is_paused_resumed_and_run(operator: Operator, orders: pgqpy.Client) -> None:
    browser = operator()
    assert "Pause" in browser.get("/cron").text
    assert post(browser, "pause-cron", name="report").headers["location"] == "/cron"
    assert orders.get_cron_info("report")[0].paused_since is not None
    assert "Resume" in browser.get("/cron").text
    post(browser, "resume-cron", name="report")
    assert orders.get_cron_info("report")[0].paused_since is None
    post(browser, "run-cron", name="report")
    told = outcomes(orders)
    assert [each[:2] for each in told] == [
        ("anna", "pause-cron"),
        ("anna", "resume-cron"),
        ("anna", "run-cron"),
    ]
    assert (told[2][2] or "").startswith("inserted event")


def test_a_failed_event_for_which_others_wait_is_retried_now(
    operator: Operator, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "letters", shared=True, key="extra1")
    client.insert_event("orders", "x", "y", extra1="ann")
    (message,) = client.receive("orders", "letters", wait=0, key="extra1")
    message.retry(3600)
    client.insert_event("orders", "x", "y", extra1="ann")
    assert client.receive("orders", "letters", wait=0, key="extra1") == []
    browser = operator()
    assert "Retry now" in browser.get("/consumer?queue=orders&consumer=letters").text
    form = {"queue": "orders", "consumer": "letters", "event": str(message.event.id)}
    post(browser, "retry-now", **form)
    assert outcomes(client)[-1] == ("anna", "retry-now", f"event {form['event']} is due now")
    eventually(lambda: client.receive("orders", "letters", wait=0, key="extra1"))
    assert post(browser, "retry-now", **{**form, "event": "99"}).status_code == 400


def test_the_next_page_shows_once_what_a_change_did(
    operator: Operator, orders: pgqpy.Client
) -> None:
    browser, other = operator(), operator()
    page = post(browser, "pause-cron", name="report").headers["location"]
    told = "Done: pause-cron: paused."
    assert told not in other.get(page).text
    browser.head(page)
    assert told in browser.get(page).text
    assert told not in browser.get(page).text
    assert orders.get_cron_info("report")[0].paused_since is not None


def test_a_form_that_is_refused_or_fails_says_why_and_a_failure_is_noted(
    operator: Operator, orders: pgqpy.Client
) -> None:
    browser = operator()
    old = {"token": "0" * 64, "name": "report"}
    failing = {"token": token(browser.get("/changes").text), "name": "no such entry"}
    for form, said in ((old, "the form is too old"), (failing, "no such entry")):
        page = browser.post("/change/pause-cron", data=form, headers={"origin": HOME})
        assert page.status_code >= 400
        assert said in page.text
        assert "To the overview" in page.text
    ((_, action, outcome),) = outcomes(orders)
    assert (action, (outcome or "")[:6]) == ("pause-cron", "failed")
    assert post(browser, "no-such-action").status_code == 404
    assert orders.get_cron_info("report")[0].paused_since is None


def test_a_change_is_in_the_next_message_of_a_stream(
    dsn: str,
    with_logins: PasswordAccess,
    orders: pgqpy.Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "LINGER", 3600.0)
    board = Dashboard(dsn, with_logins, (HOST,))
    texts = iter(["before", "after"])

    async def make() -> str:
        return next(texts)

    with TestClient(board.app, base_url=HOME, follow_redirects=False) as browser:
        assert log_in(browser, "anna").is_redirect
        assert browser.portal is not None
        browser.get("/cron")
        monkeypatch.setattr(board.feed, "_publish", lambda: None)  # no poll makes texts anew
        assert browser.portal.call(board.feed.text, "cron", make) == "before"
        assert post(browser, "pause-cron", name="report").is_redirect
        assert browser.portal.call(board.feed.text, "cron", make) == "after"
    assert orders.get_cron_info("report")[0].paused_since


def test_a_queue_is_set_and_gets_a_test_event(operator: Operator, orders: pgqpy.Client) -> None:
    browser = operator()
    assert "Insert an event" in browser.get("/queue/change?queue=orders").text
    post(browser, "set-queue", queue="orders", setting="rotation_period", value="3 hours")
    assert orders.get_queue_info("orders")[0].queue_rotation_period.total_seconds() == 3 * 3600
    post(browser, "insert-event", queue="orders", type="test", data="a secret")
    assert orders.get_queue_info("orders")[0].ev_new == 1
    assert "a secret" not in browser.get("/changes").text
    refused = post(browser, "set-queue", queue="orders", setting="extra_maint", value="x")
    assert refused.status_code == 400
    assert (outcomes(orders)[-1][2] or "").startswith("failed")


@pytest.mark.parametrize("action", DEAD)
def test_all_matching_dead_events_are_changed_in_the_background(
    operator: Operator, orders: pgqpy.Client, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(changes, "EVENTS", 100)
    kill(orders, *["order.new"] * 250)
    kill(orders, *["order.paid"] * 3)
    browser = operator()
    page = browser.get("/dead?queue=orders&consumer=billing&type=order.new")
    assert "Retry or delete all dead events of this type" in page.text
    assert post(browser, action, **PLACE, type="order.new").headers["location"] == "/changes"
    eventually(lambda: outcomes(orders)[0][2])
    assert dead(orders) == 3
    verb = "retried" if action == "retry-dead" else "deleted"
    assert outcomes(orders) == [("anna", action, f"{verb} 250 dead event(s)")]


@pytest.mark.parametrize("action", DEAD)
def test_events_that_die_after_the_click_are_left_alone(
    operator: Operator, orders: pgqpy.Client, connection: psycopg.Connection[Any], action: str
) -> None:
    kill(orders, *["order.new"] * 3)
    later = "update pgq.dead_event set dead_time = now() + '1 hour' where ev_id = %s"
    connection.execute(
        later, [orders.call(calls.dead_events.get_dead_event_bounds("orders", "billing")).last_id]
    )
    post(operator(), action, **PLACE)
    eventually(lambda: outcomes(orders)[0][2])
    assert dead(orders) == 1


def test_a_job_is_one_at_a_time_and_can_be_stopped(
    operator: Operator,
    orders: pgqpy.Client,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "EVENTS", 10)
    for timeout in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(SETTINGS, timeout, "60s")
    kill(orders, *["order.new"] * 50)
    browser = operator()
    with connection.transaction():  # the job waits for this lock
        connection.execute("lock table pgq.dead_event in share mode")
        post(browser, "delete-dead", **PLACE)
        assert post(browser, "retry-dead", **PLACE).status_code == 400
        assert "Running" in browser.get("/changes").text
        post(browser, "stop-dead")
    eventually(lambda: outcomes(orders) and outcomes(orders)[0][2])
    assert "Running" not in browser.get("/changes").text
    assert dead(orders) >= 40


def test_of_two_clicks_at_the_same_time_one_is_refused_and_not_noted(
    operator: Operator,
    orders: pgqpy.Client,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for timeout in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(SETTINGS, timeout, "60s")
    kill(orders, *["order.new"] * 3)
    browser = operator()
    with ThreadPoolExecutor() as background:
        with connection.transaction():  # the first click waits for this lock
            connection.execute("lock table pgq.change in share mode")
            first = background.submit(post, browser, "delete-dead", **PLACE)
            eventually(lambda: connection.execute(WAITS_FOR_AUDIT).fetchall())
            assert post(browser, "delete-dead", **PLACE).status_code == 400
        assert first.result().is_redirect
    eventually(lambda: outcomes(orders)[0][2])
    assert outcomes(orders) == [("anna", "delete-dead", "deleted 3 dead event(s)")]


def test_a_login_that_may_not_is_shown_no_button(
    operator: Operator, orders: pgqpy.Client, dsn: str, login: Callable[..., str]
) -> None:
    browser = operator(dsn=psycopg.conninfo.make_conninfo(dsn, user=login("pgq_reader")))
    assert "Pause" not in browser.get("/cron").text
    assert post(browser, "pause-cron", name="report").status_code >= 400
    assert orders.get_cron_info("report")[0].paused_since is None
