"""The dashboard of the test's database, and browsers without a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

import pgqpy
from pgqpy import calls
from pgqpy.dashboard.access import (
    Access,
    Entry,
    HeaderAccess,
    LoopbackAccess,
    PasswordAccess,
    make_entry,
    parse_entries,
)
from pgqpy.dashboard.access import parse_networks as networks
from pgqpy.dashboard.app import Dashboard
from tests.support.processes import PythonProcess
from tests.support.waiting import eventually

SECRET = "correct horse battery"  # of the tests' logins
HOST = "127.0.0.1"
HOME = f"http://{HOST}"

CHROMIUM = "/usr/bin/chromium"
WAIT = 30_000  # milliseconds

Site = Callable[..., TestClient]
Open = Callable[..., Any]
Operator = Callable[..., TestClient]


@pytest.fixture(scope="session")
def entries() -> dict[str, Entry]:
    """The logins anna, an operator, and vera, a viewer."""
    lines = [make_entry("anna", "operator", SECRET), make_entry("vera", "viewer", SECRET)]
    return parse_entries("\n".join(lines))


@pytest.fixture
def orders(client: pgqpy.Client, new_orders: str) -> pgqpy.Client:
    """A client of the test's database, with a queue `orders` and its consumer `billing`."""
    return client


@pytest.fixture
def site(dsn: str) -> Iterator[Site]:
    """Serve the dashboard: `site()`, `site(PasswordAccess(entries), read_only=True)`."""
    with ExitStack() as stack:

        def serve(access: Access | None = None, **options: Any) -> TestClient:
            chosen = access or LoopbackAccess()
            app = Dashboard(options.pop("dsn", dsn), chosen, (HOST,), **options).app
            client = TestClient(app, base_url=HOME, follow_redirects=False, client=("10.0.0.5", 1))
            return stack.enter_context(client)

        yield serve


@pytest.fixture
def with_logins(entries: dict[str, Entry]) -> PasswordAccess:
    """Access by the passwords of anna and vera."""
    return PasswordAccess(entries)


@pytest.fixture
def behind_proxy() -> HeaderAccess:
    """Access by the header X-User of the proxy 10.0.0.5, with oscar as operator."""
    return HeaderAccess("X-User", networks(("10.0.0.5",)), frozenset({"oscar"}))


def token(page: str) -> str:
    """Return the token of the first form of a page."""
    return page.partition('name="token" value="')[2].partition('"')[0]


def fields_of(form: str) -> dict[str, str]:
    """Return the hidden fields of a form, which a page has filled in."""
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form))


def checked(client: TestClient, path: str = "/") -> str:
    """Return a page that shows what the checks found; the first page does not wait for them."""

    def page() -> str:
        text = client.get(path).text
        return text if "Checked " in text else ""

    return eventually(page)


def log_in(client: TestClient, name: str, password: str = SECRET, **fields: str) -> Any:
    """Send the form of the login page."""
    form = {"token": token(client.get("/login").text), "name": name, "password": password}
    return client.post("/login", data={**form, **fields}, headers={"origin": HOME})


@pytest.fixture
def operator(site: Site, with_logins: PasswordAccess) -> Operator:
    """The browser of anna, who is an operator."""

    def browse(**options: Any) -> TestClient:
        browser = site(with_logins, **options)
        assert log_in(browser, "anna").is_redirect
        return browser

    return browse


def post(browser: TestClient, action: str, **form: str) -> Any:
    """Send a form, with its token, as a page of ours would."""
    fields = {"token": token(browser.get("/changes").text), **form}
    return browser.post(f"/change/{action}", data=fields, headers={"origin": HOME})


def outcomes(client: pgqpy.Client) -> list[tuple[str | None, str, str | None]]:
    """Return user, action and outcome of all changes, the oldest first."""
    return [
        (each.user, each.action, each.outcome) for each in client.call(calls.history.get_changes())
    ][::-1]


def kill(
    client: pgqpy.Client,
    *types: str,
    queue: str = "orders",
    consumer: str = "billing",
    text: str = "no",
) -> list[int]:
    """Insert an event of each type and give it up; return the ids."""
    ids = client.insert_events(queue, [(type_, text) for type_ in types], returning_ids=True)
    client.tick_queue(queue)
    while (batch := client.next_batch(queue, consumer)) is not None:
        events = list(client.get_batch_events(batch))
        client.event_dead(batch, [(event, ValueError(text)) for event in events])
        client.finish_batch(batch)
    return ids


def served(stack: ExitStack, dsn: str, *options: str) -> str:
    """Start the dashboard, and return its URL."""
    command = ("-m", "pgqpy", "dashboard", "--port", "0", *options)
    process = PythonProcess(*command, env={"PGQPY_DSN": dsn})
    stack.callback(process.close)
    return process.wait_for_output("/\n").partition("dashboard: ")[2].strip().rstrip("/")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's chromium, driven by playwright. The tests run as root: without its sandbox."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Start a dashboard of one's own: `serve(dsn, "--read-only")` returns its URL."""
    with ExitStack() as stack:
        yield partial(served, stack)


@pytest.fixture
def open_page(chromium: Any, serve: Any) -> Iterator[Open]:
    """Open a page: `open_page(url, color_scheme="dark")`; at the end no error may be there."""
    problems: list[str] = []
    with ExitStack() as stack:

        def opener(address: str, **options: Any) -> Any:
            context = chromium.new_context(**options)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(WAIT)
            page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("dialog", lambda dialog: problems.append(dialog.message))
            page.goto(address)
            return page

        yield opener
    wanted = [each for each in problems if "status of 404" not in each]  # a wrong address has one
    assert wanted == []
