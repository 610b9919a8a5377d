"""The dashboard of the test's database, and browsers without a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient

from pgqpy.dashboard.access import Access, HeaderAccess, LoopbackAccess, PasswordAccess
from pgqpy.dashboard.access import parse_networks as networks
from pgqpy.dashboard.app import Dashboard, Options
from pgqpy.dashboard.passwords import Entry, make_entry, parse_entries

SECRET = "correct horse battery"  # of the tests' logins
HOST = "127.0.0.1"
HOME = f"http://{HOST}"

Site = Callable[..., TestClient]


@pytest.fixture(scope="session")
def entries() -> dict[str, Entry]:
    """The logins anna, an operator, and vera, a viewer."""
    lines = [make_entry("anna", "operator", SECRET), make_entry("vera", "viewer", SECRET)]
    return parse_entries("\n".join(lines))


@pytest.fixture
def site(dsn: str) -> Iterator[Site]:
    """Serve the dashboard: `site()`, `site(PasswordAccess(entries), read_only=True)`."""
    with ExitStack() as stack:

        def serve(access: Access | None = None, **options: Any) -> TestClient:
            chosen = Options(
                options.pop("dsn", dsn), access or LoopbackAccess(), (HOST,), **options
            )
            app = Dashboard(chosen).app
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


def log_in(client: TestClient, name: str, password: str = SECRET, **fields: str) -> Any:
    """Send the form of the login page."""
    form = {"token": token(client.get("/login").text), "name": name, "password": password}
    return client.post("/login", data={**form, **fields}, headers={"origin": HOME})
