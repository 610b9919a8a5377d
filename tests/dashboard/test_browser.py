"""The dashboard in Debian's chromium: every page, live, dark, narrow, by keys, for everybody.

`make test-browser` runs these tests; they need the package chromium.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import psycopg
import pytest

import pgqpy
from pgqpy.dashboard.access import make_entry
from pgqpy.dashboard.render import linker
from tests.dashboard import shop
from tests.dashboard.conftest import SECRET, Open, served
from tests.support.databases import new_database
from tests.support.servers import Server

pytestmark = pytest.mark.browser

EVIL = '"><script>alert(1)</script>'
link = linker("")
PAGES = {
    "overview": "/",
    "queue": "/queue?queue=orders",
    "consumer": "/consumer?queue=orders&consumer=billing",
    "seek": "/consumer/seek?queue=orders&consumer=billing&to=beginning",
    "dead": "/dead?queue=orders&consumer=billing",
    "events": "/events?queue=orders",
    "follow": "/events/follow?queue=orders",
    "cron": "/cron",
    "readers": "/readers",
    "health": "/tickers",
    "change": "/queue/change?queue=orders",
    "changes": "/changes",
    "evil": link("/queue", queue=EVIL),
    "wrong": "/queue?queue=nope",
}

FOCUS = """() => {
    const style = getComputedStyle(document.activeElement);
    return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) >= 2;
}"""

TIMERS_RAN = "() => window.htmx && new Promise(done => setTimeout(() => done(true), 50))"


def fill(dsn: str) -> None:
    """Make a queue, a consumer, a dead event and a cron entry."""
    with pgqpy.connect(dsn) as client:
        client.create_queue("orders")
        client.register_consumer("orders", "billing")
        for number in range(20):
            client.insert_event("orders", "order.new", json.dumps({"order": number}))
            client.tick_queue("orders")
        batch = client.next_batch("orders", "billing")
        assert batch is not None
        events = list(client.get_batch_events(batch))
        client.event_dead(batch, [(event, ValueError("no")) for event in events])
        client.finish_batch(batch)
        client.add_cron("report", "orders", "build", schedule="0 7 * * *")


@pytest.fixture
def enter(open_page: Open, serve: Callable[..., str], tmp_path: Path) -> Open:
    """Open a page of a database and log in as anna: `enter(dsn, PAGES["dead"])`."""
    (tmp_path / "logins").write_text(make_entry("anna", "operator", SECRET))

    def opener(dsn: str, path: str, **options: Any) -> Any:
        url = serve(dsn, "--password-file", str(tmp_path / "logins"))
        page = open_page(url + path, **options)
        page.get_by_label("Name").fill("anna")
        page.get_by_label("Password").fill(SECRET)
        page.get_by_role("button", name="Log in").click()
        return page

    return opener


@pytest.fixture(scope="module")
def filled_dsn(server: Server, template: str) -> Iterator[str]:
    """One database for the tests that only look: the made-up shop, and a queue of an evil name."""
    with ExitStack() as stack:
        dsn = server.dsn(stack.enter_context(new_database(server, template)))

        def connect(**options: Any) -> psycopg.Connection[Any]:
            return stack.enter_context(psycopg.connect(dsn, autocommit=True, **options))

        with pgqpy.connect(dsn) as client:
            shop.fill(client, connect)
            client.create_queue(EVIL)
        yield dsn


@pytest.fixture(scope="module")
def url(filled_dsn: str) -> Iterator[str]:
    """The address of a dashboard of this database."""
    with ExitStack() as stack:
        yield served(stack, filled_dsn)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_each_page_has_no_error_and_no_barrier(
    open_page: Open, url: str, name: str, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(url + PAGES[name], color_scheme=scheme)
    for summary in page.locator("summary").all():
        summary.click()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("name", PAGES)
def test_each_page_fits_a_phone(open_page: Open, url: str, name: str) -> None:
    page = open_page(url + PAGES[name], viewport={"width": 360, "height": 740})
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    for table in page.locator("table.cards").all():
        assert table.evaluate("each => getComputedStyle(each).display") == "block"


def test_dark_is_dark(open_page: Open, url: str) -> None:
    colours = [
        open_page(url, color_scheme=scheme).evaluate("getComputedStyle(document.body).color")
        for scheme in ("light", "dark")
    ]
    assert colours[0] != colours[1]


def test_the_overview_follows_the_database(open_page: Open, url: str, filled_dsn: str) -> None:
    page = open_page(url)
    with pgqpy.connect(filled_dsn) as client:
        client.create_queue("appears")
        page.get_by_role("link", name="appears").wait_for()
        client.drop_queue("appears")
        page.get_by_role("link", name="appears").wait_for(state="detached")
    assert page.evaluate("performance.getEntriesByType('navigation').length") == 1


def test_new_events_appear_and_an_open_one_stays_open(
    open_page: Open, url: str, filled_dsn: str
) -> None:
    page = open_page(url + "/events?queue=orders")
    page.get_by_role("link", name="Follow new events").click()
    page.wait_for_url("**/events/follow?*")
    known = page.locator("details.event").first
    known.locator("summary").click()
    mark = known.get_attribute("id")
    with pgqpy.connect(filled_dsn) as client:
        event = client.insert_event("orders", "order.late", '{"order": "late"}')
        client.tick_queue("orders")
    page.locator(f"[id^='event-{event}-']").wait_for()
    assert page.locator(f"#{mark}").get_attribute("open") is not None
    assert page.locator(f"#{mark} pre").is_visible()
    assert page.locator("details.event[open]").count() == 1


def test_the_charts_stay_while_the_page_follows_the_database(open_page: Open, url: str) -> None:
    page = open_page(url + PAGES["queue"])
    time = page.locator(".status").text_content()
    page.wait_for_function(
        "time => document.querySelector('.status').textContent != time", arg=time
    )
    assert page.locator("svg.chart").count() == 5


def test_a_name_is_no_script(open_page: Open, url: str) -> None:
    page = open_page(url)
    page.get_by_role("link", name=EVIL).first.click()
    page.locator("h1", has_text=EVIL).wait_for()


def test_keys_move_around(open_page: Open, url: str) -> None:
    page = open_page(url)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("mail")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=mail")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "mail"
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_url("**/tickers")


@pytest.mark.parametrize("name", PAGES)
def test_each_page_can_be_read_without_javascript(open_page: Open, url: str, name: str) -> None:
    page = open_page(url + PAGES[name], java_script_enabled=False)
    assert page.locator("h1").count() == 1
    live = page.locator("main[hx-sse\\:connect]").count()
    assert page.locator("noscript meta[http-equiv=refresh]").count() == live


def test_a_login_and_a_logout(enter: Open, filled_dsn: str) -> None:
    page = enter(filled_dsn, "/cron")
    page.wait_for_url("**/cron")
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")


def test_a_lost_database_is_shown_and_comes_back(
    open_page: Open, serve: Callable[..., str], server: Server, template: str
) -> None:
    with new_database(server, template) as name:
        page = open_page(serve(server.dsn(name)))
        lost = page.get_by_text("The database does not answer")
        assert lost.count() == 0
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(f"alter database {name} allow_connections false")
            query = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
            admin.execute(query, [name])
            lost.wait_for()
            admin.execute(f"alter database {name} allow_connections true")
        lost.wait_for(state="detached")


def test_an_operator_deletes_the_dead_events(enter: Open, dsn: str) -> None:
    fill(dsn)
    page = enter(dsn, PAGES["dead"])
    page.get_by_text("Retry or delete all dead events of this consumer").click()
    page.get_by_role("button", name="Delete them for good").click()
    page.wait_for_url("**/changes")
    page.get_by_text("deleted 1 dead event(s)").wait_for()
    page.goto(urljoin(page.url, "/cron"))
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").wait_for()


def test_one_dead_event_is_retried_without_javascript(enter: Open, dsn: str) -> None:
    fill(dsn)
    with pgqpy.connect(dsn) as client:
        (dead,) = client.get_dead_events("orders", "billing")
    page = enter(dsn, PAGES["dead"], java_script_enabled=False)
    page.locator("summary", has_text=str(dead.ev_id)).click()
    page.get_by_role("button", name="Retry this event").click()
    page.get_by_text("There is none").wait_for()
    page.goto(urljoin(page.url, "/changes"))
    page.get_by_text(f"retried event {dead.ev_id}").wait_for()


def test_an_operator_moves_a_consumer_without_javascript(enter: Open, dsn: str) -> None:
    fill(dsn)
    page = enter(dsn, PAGES["consumer"], java_script_enabled=False)
    page.get_by_role("link", name="Move it to another place").click()
    page.get_by_label("To").select_option("end")
    page.get_by_role("button", name="Say what the move does").click()
    page.get_by_role("button", name="skip about 19 event(s)").click()
    page.get_by_role("link", name="Move it to another place").wait_for()
    page.goto(urljoin(page.url, "/changes"))
    page.get_by_text("moved from tick 2 to 21").wait_for()


def test_the_focus_is_seen_and_begins_with_the_way_to_the_content(
    open_page: Open, url: str
) -> None:
    page = open_page(url)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="To the content")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert (skip.bounding_box() or {})["width"] > 50
    for _ in range(8):
        assert page.evaluate(FOCUS)
        page.keyboard.press("Tab")
    skip.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') != null")


def test_a_page_goes_live_though_a_script_comes_late(open_page: Open, url: str) -> None:
    page = open_page("about:blank")
    late: list[Any] = []
    page.route("**/hx-sse.min.js*", lambda route: late.append(route))  # noqa: PLW0108  # no method
    with page.expect_request("**/hx-sse.min.js*"):
        page.goto(url, wait_until="commit")
    page.wait_for_function(TIMERS_RAN)
    with page.expect_request("**/live/*"):
        late[0].continue_()
