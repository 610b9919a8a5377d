"""Forged requests: what a form must have, and the headers of every answer."""

from __future__ import annotations

import pytest

from pgqpy.dashboard.access import LoopbackAccess, PasswordAccess
from tests.dashboard.conftest import HOME, SECRET, Site, token

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


ELSEWHERE = [
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
    for headers in ELSEWHERE:
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
