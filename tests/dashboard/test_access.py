"""Who sees which page, ways to get around it, forged requests, and the file of passwords."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from pgqpy.dashboard.access import (
    Entry,
    HeaderAccess,
    LoopbackAccess,
    PasswordAccess,
    check_password,
    is_loopback,
    make_entry,
    parse_entries,
)
from pgqpy.dashboard.app import Dashboard
from pgqpy.dashboard.login import Throttle, local_path
from pgqpy.dashboard.sessions import COOKIE
from pgqpy.errors import InvalidArgument
from tests.dashboard.conftest import HOME, HOST, SECRET, Site, log_in, token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PUBLIC = {"/healthz", "/login", "/logout"}
PAGES = {"/", "/queue", "/consumer", "/dead", "/events", "/cron", "/tickers"}
PAGES |= {"/queue/change", "/consumer/seek", "/events/follow", "/readers", "/changes"}
LIVE = {"/live/", "/live/queue", "/live/consumer", "/live/cron", "/live/tickers", "/live/changes"}
LIVE |= {"/live/events/follow", "/live/readers"}


def test_every_route_is_in_the_table(with_logins: PasswordAccess) -> None:
    app = Dashboard("dbname=x", with_logins, None).app
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    assert paths == PUBLIC | PAGES | LIVE | {"/change/{action}"}


def test_without_a_login_every_page_leads_to_the_login_and_tells_nothing(
    site: Site, with_logins: PasswordAccess
) -> None:
    client = site(with_logins)
    for path in sorted(PAGES):
        answer = client.get(path + "?q=1")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login?next=%2F")
    for path in sorted(LIVE):
        assert client.get(path).status_code == 401
    assert client.get("/no-such-page").status_code == 303
    assert client.get("/static/../app.py").status_code in {303, 404}
    assert client.get("/healthz").text == "ok\n"


def test_an_address_beside_the_login_page_tells_nothing_of_the_database(
    site: Site, with_logins: PasswordAccess, connection: Any
) -> None:
    client = site(with_logins)
    log_in(client, "vera")
    name = connection.info.dbname
    assert name in client.get("/").text
    client.cookies.clear()
    for path in ("/login-no-such-page", "/login/x"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert name not in answer.text


@pytest.mark.parametrize("name", ["anna", "nobody", "", "anna:operator", "é\x00"])
def test_a_wrong_password_opens_nothing(site: Site, with_logins: PasswordAccess, name: str) -> None:
    client = site(with_logins)
    answer = log_in(client, name, SECRET + "!")
    assert answer.status_code == 401
    assert SECRET not in answer.text
    assert "name or the password is wrong" in answer.text
    assert client.get("/").status_code == 303


def test_after_a_wrong_password_the_address_has_to_wait(
    site: Site, with_logins: PasswordAccess
) -> None:
    client = site(with_logins)
    assert log_in(client, "anna", "wrong password").status_code == 401
    assert log_in(client, "anna").status_code == 429


async def test_tries_at_the_same_time_count_as_one() -> None:
    throttle, tries = Throttle(clock=lambda: 7.0), []

    def wrong() -> bool:
        tries.append(1)
        return False

    assert await throttle.try_once(("10.0.0.9", "anna"), wrong) is False
    assert await throttle.try_once(("10.0.0.9", "anna"), wrong) is None
    assert tries == [1]
    assert throttle.may_try(("10.0.0.8", "anna"))
    assert throttle.may_try(("10.0.0.9", "vera")), "behind a proxy all have one address"


def test_a_forged_or_changed_cookie_is_no_login(site: Site, with_logins: PasswordAccess) -> None:
    client = site(with_logins)
    log_in(client, "anna")
    real = client.cookies[COOKIE]
    other = site(with_logins)  # another process, with another key
    changed = ("B" if real[0] == "A" else "A") + real[1:]
    for value in (changed, "x", real.partition(".")[0], real[:-9]):
        client.cookies.clear()
        client.cookies.set(COOKIE, value)
        assert client.get("/").status_code == 303, value
    other.cookies.set(COOKIE, real)
    assert other.get("/").status_code == 303


def test_the_cookie_is_for_this_site_only_and_scripts_cannot_read_it(
    site: Site, with_logins: PasswordAccess
) -> None:
    cookie = site(with_logins, https=True).get("/login").headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=strict", "Secure", "Path=/", "Max-Age=43200"):
        assert part in cookie


def test_a_login_gets_a_new_session_and_a_logout_ends_it(
    site: Site, with_logins: PasswordAccess
) -> None:
    client = site(with_logins)
    old = token(client.get("/login").text)
    before = client.cookies[COOKIE]
    log_in(client, "anna")
    cookie = client.cookies[COOKIE]
    assert cookie != before
    assert client.get("/logout").status_code == 405
    assert client.get("/").status_code == 200
    mine = token(client.get("/").text)
    for each, status in ((old, 403), (mine, 303)):
        answer = client.post("/logout", data={"token": each}, headers={"origin": HOME})
        assert answer.status_code == status
    assert client.get("/").status_code == 303
    client.cookies.clear()
    client.cookies.set(COOKIE, cookie)  # somebody has copied it
    assert client.get("/").status_code == 303


def test_a_logout_ends_the_streams_of_the_login(
    dsn: str, with_logins: PasswordAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Dashboard(dsn, with_logins, (HOST,))
    with TestClient(board.app, base_url=HOME, follow_redirects=False) as client:
        log_in(client, "anna")
        form = {"token": token(client.get("/").text)}
        elsewhere = TestClient(board.app, base_url=HOME, cookies={COOKIE: client.cookies[COOKIE]})

        async def follow() -> AsyncIterator[None]:
            yield None
            await asyncio.to_thread(elsewhere.post, "/logout", data=form, headers={"origin": HOME})
            yield None
            yield None

        monkeypatch.setattr(board.feed, "follow", follow)
        assert client.get("/live/").text == ":\n\n"


ELSEWHERE = ["https://evil.example/", "//evil.example", "///evil.example", "//["]
ELSEWHERE += ["/\\evil.example", "\\\\evil", "javascript:x", ""]


def test_a_login_never_leads_elsewhere() -> None:
    assert {local_path(wanted) for wanted in ELSEWHERE} == {"/"}


PROXY: list[tuple[list[str], int]] = [
    ([], 403),
    ([""], 403),
    (["oscar"], 200),
    (["somebody"], 200),
    (["somebody", "oscar"], 403),
]


def test_the_proxy_names_the_user_and_nobody_else_does(
    site: Site, behind_proxy: HeaderAccess
) -> None:
    client = site(behind_proxy)
    for users, status in PROXY:
        headers = [("x-user", user) for user in users]
        assert client.get("/", headers=headers).status_code == status
    for peer in ("10.0.0.6", "testclient", "::1"):
        client._transport.client = (peer, 1)  # type: ignore[attr-defined]  # TestClient's own
        answer = client.get("/", headers={"x-user": "oscar", "x-forwarded-for": "10.0.0.5"})
        assert answer.status_code == 403


HOSTS = ["evil.example", "127.0.0.1.evil.example", "", "[", "10.0.0.5", "127.0.0.1/static/x?"]


def test_another_host_name_is_refused(site: Site) -> None:
    client = site()
    for host in HOSTS:
        answer = client.get("/", headers={"host": host})
        assert answer.status_code == 400
        assert "content-security-policy" in answer.headers


def test_which_addresses_are_of_this_machine() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.1.2.3", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "", "myhost"]))


def test_only_the_right_password_of_this_name_is_right(entries: dict[str, Entry]) -> None:
    found = check_password(entries, "anna", SECRET)
    assert found is not None
    assert found.role == "operator"
    for name, password in (("anna", "wrong"), ("vera", SECRET + " "), ("nobody", SECRET), ("", "")):
        assert check_password(entries, name, password) is None


def test_two_lines_of_one_password_differ_and_do_not_contain_it() -> None:
    lines = {make_entry("anna", "viewer", SECRET) for _ in range(2)}
    assert len(lines) == 2
    assert not any(SECRET in line for line in lines)


def test_comments_and_empty_lines_are_left_out() -> None:
    text = f"# the night shift\n\n{make_entry('anna', 'viewer', SECRET)}\n"
    assert list(parse_entries(text)) == ["anna"]


LINE = f"anna:viewer:scrypt${'A' * 22}==${'B' * 43}="


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no login"),
        ("anna:viewer:secret", "line 1"),
        (LINE.replace("viewer", "admin"), "viewer or operator"),
        (LINE.replace("anna", ""), "name is empty"),
        (f"{LINE}\n{LINE}", "line 2"),
        (LINE[:-6], "no hash"),
        ("anna:viewer:scrypt$é$é", "no hash"),
        ("anna", "line 1"),
    ],
)
def test_a_wrong_line_is_named(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        parse_entries(text)


@pytest.mark.parametrize("name", ["", " anna", "an:na", "an\nna", "an\x1bna"])
def test_a_name_that_would_break_the_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        make_entry(name, "viewer", SECRET)


def test_a_short_password_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="12 characters"):
        make_entry("anna", "viewer", "short")


HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


def test_a_form_without_its_own_token_is_refused(site: Site, with_logins: PasswordAccess) -> None:
    client = site(with_logins)
    of_another_browser = token(client.get("/login").text)
    client.cookies.clear()
    client.get("/login")
    form = {"name": "anna", "password": SECRET}
    for extra in ({}, *({"token": each} for each in ("", "0" * 64, "é", of_another_browser))):
        answer = client.post("/login", data={**form, **extra}, headers={"origin": HOME})
        assert answer.status_code == 403


OTHER_SITES = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": HOME + ":81"},
    {"origin": ""},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


def test_a_form_of_another_site_is_refused(site: Site, with_logins: PasswordAccess) -> None:
    client = site(with_logins)
    form = {"token": token(client.get("/login").text), "name": "anna", "password": SECRET}
    for headers in OTHER_SITES:
        assert client.post("/login", data=form, headers=headers).status_code == 403
    assert client.post("/login", data=form, headers={"origin": HOME}).is_redirect


def test_other_methods_are_refused(site: Site) -> None:
    client = site()
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/").status_code == 405


def test_a_form_is_urlencoded_and_small(site: Site, with_logins: PasswordAccess) -> None:
    client = site(with_logins)
    origin = {"origin": HOME}
    assert client.post("/login", json={"token": "x"}, headers=origin).status_code == 415
    assert client.post("/login", data={"x": "y" * 70_000}, headers=origin).status_code == 413
    many = {f"x{number}": "y" for number in range(200)}
    assert client.post("/login", data=many, headers=origin).status_code == 400


def test_every_answer_has_the_headers(site: Site) -> None:
    client = site(LoopbackAccess())
    for path in ("/", "/nope", "/queue", "/healthz", "/static/pgqpy.css"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "server" not in answer.headers


def test_no_page_has_scripts_or_styles_inside(site: Site) -> None:
    client = site()
    for path in ("/", "/queue?queue=x", "/cron", "/tickers"):
        page = client.get(path).text
        assert " style=" not in page
        assert "<style" not in page
        assert " onclick" not in page
        assert page.count("<script ") == page.count("<script src=")
        assert "http://" not in page.replace('"http://www.w3.org', "")


def test_an_unknown_address_gives_a_page_of_ours(site: Site) -> None:
    browser = site()
    for path in ("/nope", "/queue/nope", "/<script>alert(1)</script>"):
        page = browser.get(path)
        assert page.status_code == 404
        assert "There is no page at this address" in page.text
        assert "To the overview" in page.text
        assert "<script>alert" not in page.text
    assert browser.get("/change/pause-cron").status_code == 405
    for path in ("/static/nope.js", "/live/nope"):
        assert browser.get(path).text == "Not Found\n"


@pytest.mark.usefixtures("new_orders")
def test_what_the_server_takes_for_no_value_is_a_bad_request(site: Site) -> None:
    browser = site()
    for what in ({"since": "2026-01-01T00:00+23:00"}, {"queue": "a\0b"}, {"since": "10000-01-01"}):
        page = browser.get("/events", params={"queue": "orders", **what})
        assert page.status_code == 400
        assert 'http-equiv="refresh"' not in page.text
