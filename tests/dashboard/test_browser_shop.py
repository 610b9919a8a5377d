"""The made-up shop in Debian's chromium: lanes, leases, parked keys, numbers that change, focus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

import pgqpy
from pgqpy.dashboard.pages import PAGES
from pgqpy.dashboard.render import linker
from tests.dashboard.conftest import Open, served
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
