"""The made-up shop in Debian's chromium: lanes, leases, parked keys, numbers that change, focus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy.dashboard.access import make_entry
from pgqpy.dashboard.pages import PAGES
from pgqpy.dashboard.render import linker
from tests.dashboard.conftest import SECRET, WAIT, Open, served
from tests.dashboard.shop import fill
from tests.support.databases import new_database
from tests.support.servers import Server

pytestmark = pytest.mark.browser

link = linker("")
PATHS = [
    *(link(page.path, queue="orders", consumer="billing") for page in PAGES),
    *(
        link("/consumer", queue=queue, consumer=consumer)
        for queue, consumer in (
            *(("orders", "search"), ("orders", "warehouse")),  # lanes; a position that is late
            *(("mail", "smtp"), ("stock", "suppliers")),  # parked keys; leases
        )
    ),
]
FOCUS = """() => {
    const style = getComputedStyle(document.activeElement);
    return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) >= 2;
}"""

TIMERS_RAN = "() => window.htmx && new Promise(done => setTimeout(() => done(true), 50))"


@pytest.fixture(scope="module")
def shop(server: Server, template: str) -> Iterator[str]:
    """The DSN of the shop, with the sessions of its ticker and consumers."""
    with ExitStack() as stack:
        dsn = server.dsn(stack.enter_context(new_database(server, template)))

        def connect(**options: Any) -> psycopg.Connection[Any]:
            return stack.enter_context(psycopg.connect(dsn, autocommit=True, **options))

        with pgqpy.connect(dsn) as client:
            fill(client, connect)
        yield dsn


@pytest.fixture(scope="module")
def url(shop: str) -> Iterator[str]:
    """The address of its dashboard."""
    with ExitStack() as stack:
        yield served(stack, shop)


@pytest.mark.parametrize("path", PATHS)
def test_each_page_asks_its_own_host_only_and_has_no_barrier(
    open_page: Open, url: str, path: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page("about:blank")
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
    page.goto(url + path)
    assert [each for each in asked if not each.startswith(f"{url}/")] == []
    assert failed == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_number_changes_without_a_reload(open_page: Open, url: str, shop: str) -> None:
    from playwright.sync_api import expect

    page = open_page(url + link("/consumer", queue="payments", consumer="fraud"))
    number = page.locator(".tiles > div", has_text="pending events").locator("dd")
    before = int(number.inner_text())
    page.evaluate("window.same = true")
    with pgqpy.connect(shop) as client:
        client.insert_events("payments", [("order.paid", "{}")] * 7)
        client.tick_queue("payments")
    expect(number).to_have_text(str(before + 7), timeout=WAIT)
    assert page.evaluate("window.same") is True


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


def test_a_wrong_password_is_told_and_opens_nothing(
    chromium: Any, serve: Any, shop: str, tmp_path: Path
) -> None:
    (tmp_path / "logins").write_text(make_entry("anna", "operator", SECRET))
    url = serve(shop, "--password-file", str(tmp_path / "logins"))
    page = chromium.new_page()
    page.goto(f"{url}/queue?queue=orders")
    page.wait_for_url("**/login*")
    page.get_by_label("Name").fill("anna")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").wait_for()
    page.goto(f"{url}/queue?queue=orders")
    page.wait_for_url("**/login*")
    page.close()


def test_a_page_goes_live_though_a_script_comes_late(open_page: Open, url: str) -> None:
    page = open_page("about:blank")
    late: list[Any] = []
    page.route("**/hx-sse.min.js*", lambda route: late.append(route))  # noqa: PLW0108  # no method
    with page.expect_request("**/hx-sse.min.js*"):
        page.goto(url, wait_until="commit")
    page.wait_for_function(TIMERS_RAN)
    with page.expect_request("**/live/*"):
        late[0].continue_()
