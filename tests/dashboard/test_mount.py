"""The dashboard inside of an application: everything works below its prefix."""

from __future__ import annotations

import re
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import pytest
from fastapi import FastAPI
from itsdangerous import TimestampSigner
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pgqpy import Client, calls
from pgqpy.dashboard import Login, dashboard
from pgqpy.dashboard.access import PasswordAccess
from pgqpy.dashboard.app import Dashboard
from pgqpy.errors import ConnectionFailed
from tests.dashboard.conftest import HOME, fields_of, kill, log_in, token
from tests.docs.markdown import blocks

AT = "/tools/queues"
LINK = re.compile(r'(?:href|src|action|hx-sse:connect|hx-get|hx-post)="([^"]*)"')

Mounted = Callable[..., TestClient]


def by_header(request: Request) -> Any:
    """Let in whom the header names, as an application's own session would."""
    name = request.headers.get("x-user")
    return {"vera": "viewer", "oscar": Login("Oscar", "operator")}.get(name or "")


async def by_header_later(request: Request) -> Any:
    """Do the same as an application that looks it up."""
    return by_header(request)


@pytest.fixture
def queue(client: Client) -> str:
    """A queue with a consumer."""
    client.create_queue("orders")
    client.register_consumer("orders", "mail")
    return "orders"


@pytest.fixture
def application(request: Any) -> Any:
    """An application with a page of its own, of Starlette unless the test names another kind."""
    app = getattr(request, "param", Starlette)()
    app.router.routes.append(Route("/", lambda _request: PlainTextResponse("the shop")))
    return app


@pytest.fixture
def mounted(application: Any, dsn: str) -> Iterator[Mounted]:
    """Serve the application with the dashboard in it."""
    browsers = []

    def serve(access: Any = by_header, user: str | None = "vera", **options: Any) -> TestClient:
        application.mount(AT, dashboard(dsn, access=access, **options))
        headers = {} if user is None else {"x-user": user}
        browser = TestClient(application, base_url=HOME, headers=headers)
        browsers.append(browser)
        return browser.__enter__()

    yield serve
    for browser in browsers:
        browser.__exit__(None, None, None)


@pytest.mark.parametrize("application", [Starlette, FastAPI], indirect=True)
def test_all_links_stay_below_the_prefix_and_lead_somewhere(mounted: Mounted, queue: str) -> None:
    browser = mounted()
    assert browser.get("/").text == "the shop"
    todo, seen = [f"{AT}/", f"{AT}/queue?queue={queue}"], set()
    while todo:
        path = todo.pop()
        # A stream has no end, and the forms of the events need their fields.
        if path in seen or "/live/" in path or path.endswith(("/events", "/events/follow")):
            continue
        seen.add(path)
        answer = browser.get(path)
        assert answer.is_success, path
        if answer.headers["content-type"].startswith("text/html"):
            links = [link.replace("&amp;", "&") for link in LINK.findall(answer.text)]
            assert links
            for link in links:
                whole = urljoin(path, link).partition("#")[0]
                assert urlsplit(whole).path.startswith(f"{AT}/"), link
                todo.append(whole)
    assert any("/static/pgqpy.css" in path for path in seen)
    assert f"{AT}/cron" in seen


def test_updates_come_below_the_prefix(spawn: Any, dsn: str, queue: str) -> None:
    process = spawn("-c", SERVE, env={"PGQPY_DSN": dsn})
    url = process.wait_for_output("/\n").splitlines()[-1]
    page = fetch(url + "queues/", lines=10_000)
    live = re.search(r'hx-sse:connect="([^"]+)"', page)
    assert live is not None
    assert live[1].startswith("/queues/live/")
    part = fetch(urljoin(url, live[1].replace("&amp;", "&")), lines=60)
    assert part.startswith("data: ")
    assert f'href="/queues/queue?queue={queue}"' in part
    assert process.terminate() in {0, -signal.SIGTERM}  # uvicorn sends it to itself once more


SERVE = """
import os, socket, sys
import uvicorn
from starlette.applications import Starlette
from pgqpy.dashboard import dashboard
app = Starlette()
app.mount("/queues", dashboard(os.environ["PGQPY_DSN"], access=lambda request: "viewer"))
listening = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
uvicorn.Server(config).run([listening])
"""


def fetch(url: str, lines: int) -> str:
    """Return the first lines of an answer."""
    with urlopen(url, timeout=60) as answer:
        return "".join(line.decode() for line, _ in zip(answer, range(lines), strict=False))


@pytest.mark.parametrize("access", [by_header, by_header_later])
def test_the_application_decides_who_looks(mounted: Mounted, access: Any) -> None:
    browser = mounted(access, user=None)
    for path in ("/", "/cron", "/queue?queue=x", "/live/"):
        answer = browser.get(AT + path)
        assert (answer.status_code, answer.text) == (403, "no access\n")
    answer = browser.get(f"{AT}/login")  # the application has its own
    assert answer.status_code == 404
    assert "There is no page at this address." in answer.text


@pytest.mark.parametrize("user", ["vera", "oscar"])
def test_who_may_change_something_is_the_applications_word(mounted: Mounted, user: str) -> None:
    browser = mounted(user=user, read_only=True)
    form: dict[str, Any] = {"headers": {"origin": HOME}, "data": {"token": "x"}}
    assert browser.post(f"{AT}/cron", **form).status_code == 403
    shown = {"vera": 'title="viewer">viewer<', "oscar": 'title="operator">Oscar<'}
    assert shown[user] in browser.get(f"{AT}/").text


@pytest.mark.parametrize(
    ("page", "action", "typed", "leads_to"),
    [
        ("/cron", "pause-cron", {}, "/cron"),
        (
            "/queue/change?queue=orders",
            "set-queue",
            {"setting": "ticker_paused", "value": "true"},
            "/queue?queue=orders",
        ),
        ("/queue/change?queue=orders", "insert-event", {"type": "x"}, "/queue?queue=orders"),
        ("/dead?queue=orders&consumer=mail", "delete-dead", {}, "/changes"),
    ],
)
def test_changes_are_posted_below_the_prefix(
    mounted: Mounted, client: Client, queue: str, page: str, action: str, typed: Any, leads_to: str
) -> None:
    kill(client, "x", consumer="mail")
    client.add_cron("report", queue, "build", schedule="0 7 * * *")
    browser = mounted(user="oscar")
    forms = browser.get(AT + page).text.split("<form ")[1:]
    (form,) = (each for each in forms if f'action="{AT}/change/{action}"' in each)
    data = {**fields_of(form), **typed}
    answer = browser.post(
        f"{AT}/change/{action}", data=data, headers={"origin": HOME}, follow_redirects=False
    )
    assert (answer.status_code, answer.headers["location"]) == (303, AT + leads_to)
    assert browser.get(AT + leads_to).is_success
    assert [(each.user, each.action) for each in client.call(calls.history.get_changes())] == [
        ("Oscar", action)
    ]


@pytest.mark.parametrize("role", ["admin", True, "", ("anna", "admin")])
def test_an_unknown_role_opens_nothing(mounted: Mounted, role: Any) -> None:
    browser = mounted(lambda _request: Login(*role) if isinstance(role, tuple) else role)
    with pytest.raises(ValueError, match="return one of"):
        browser.get(f"{AT}/")


def test_forms_and_their_cookie_stay_below_the_prefix(
    application: Any, dsn: str, with_logins: PasswordAccess
) -> None:
    application.mount(AT, Dashboard(dsn, with_logins, hosts=None).app)
    browser = TestClient(application, base_url=HOME + AT, follow_redirects=False)
    with browser:
        assert browser.get("/cron").headers["location"] == f"{AT}/login?next=%2Fcron"
        answer = log_in(browser, "vera", next="/cron")
        assert answer.headers["location"] == f"{AT}/cron"
        assert f"Path={AT};" in answer.headers["set-cookie"]
        page = browser.get("/cron").text
        assert f'action="{AT}/logout"' in page
        form: dict[str, Any] = {"data": {"token": token(page)}, "headers": {"origin": HOME}}
        assert browser.post("/logout", **form).headers["location"] == f"{AT}/login"
        assert browser.get("/cron").status_code == 303


def test_only_answers_of_the_dashboard_have_its_headers(mounted: Mounted) -> None:
    browser = mounted()
    assert "content-security-policy" not in browser.get("/").headers
    assert "content-security-policy" in browser.get(f"{AT}/").headers


def test_a_dsn_that_is_not_valid_is_told_at_once() -> None:
    with pytest.raises(ConnectionFailed):
        dashboard("nonsense=1", access=by_header)


def test_the_example_of_the_page_works(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSION_KEY", "key")
    (block,) = (block for block in blocks("docs/dashboard.md", "python") if block.note == "app.py")
    example: dict[str, Any] = {}
    exec(block.text.replace("dbname=shop", dsn), example)
    session = TimestampSigner("key").sign(b64encode(b'{"user": "anna"}')).decode()
    with TestClient(example["app"], base_url=HOME) as browser:
        assert browser.get("/queues/").status_code == 403
        page = browser.get("/queues/", headers={"cookie": f"session={session}"}).text
        assert 'title="operator">anna<' in page
