"""The checks of each request before its page: host, origin, form, login, role."""

from __future__ import annotations

import re
from http import HTTPStatus
from inspect import isawaitable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from pgqpy.dashboard.access import Login, PasswordAccess
from pgqpy.dashboard.render import split_url
from pgqpy.dashboard.sessions import TOKEN, Session, Sessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pgqpy.dashboard.access import Access
    from pgqpy.dashboard.render import Renderer

HOST = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]+)?", re.ASCII)
LARGEST_FORM = 64 * 1024  # bytes
MOST_FIELDS = 100
PUBLIC = ("/login", "/healthz", "/static/")  # without a login
ANY_ROLE = ("/login", "/logout")  # forms that change nothing in the database
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer, browsers send forms with "Origin: null": nothing to check.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Asker(NamedTuple):
    """The user and the form of a request."""

    login: Login | None
    session: Session
    token: str  # for the forms of the answer
    form: dict[str, str]


class Refused(Exception):
    """The request is refused with a status and a reason."""

    def __init__(self, status: HTTPStatus, reason: str, *, is_page: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.is_page = is_page  # of ours, with links: a form of ours was sent


class Guard:
    """Lets requests through to the application, with an `Asker` as `request.state.asker`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        renderer: Renderer,
        sessions: Sessions,
        hosts: tuple[str, ...] | None,
        read_only: bool,
    ) -> None:
        """Guard an application. `hosts`: those that it answers to; None: all."""
        self._app = app
        self._hosts = hosts
        self._access = access
        self._renderer = renderer
        self._sessions = sessions
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no websocket: the server refuses what is not accepted
        request = Request(scope, receive)
        known = self._sessions.read(request)
        session = known or self._sessions.begin()
        try:
            app: ASGIApp | None = await self._check(request, session)
        except Refused as refused:
            app = self._refuse(request, session, refused)
        except ClientDisconnect:
            return
        await (app or self._app)(scope, receive, self._sender(request, send, session, known))

    async def _check(self, request: Request, session: Session) -> Response | None:
        """Return the answer to a request without a login, None if the application answers."""
        if self._hosts is not None and host_name(request) not in self._hosts:
            raise Refused(
                HTTPStatus.BAD_REQUEST, "this dashboard has another name: see --host-name"
            )
        path = route_path(request)
        form: dict[str, str] = {}
        if request.method == "POST":
            check_origin(request)
            form = await read_form(request)
            if not self._sessions.is_token(session, form.pop(TOKEN, "")):
                reason = "the form is too old: load its page again, then send it"
                raise Refused(HTTPStatus.FORBIDDEN, reason, is_page=True)
        elif request.method not in {"GET", "HEAD"}:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "there are only GET, HEAD and POST")
        found = self._access.find(request, session)
        login = await found if isawaitable(found) else found
        request.state.asker = Asker(login, session, self._sessions.token(session), form)
        if path.startswith(PUBLIC):
            return None
        if login is None:
            return self._without_login(request, path)
        if request.method == "POST" and path not in ANY_ROLE:
            self._check_operator(login)
        return None

    def _refuse(self, request: Request, session: Session, refused: Refused) -> Response:
        if not refused.is_page:
            return PlainTextResponse(f"{refused}\n", refused.status)
        if not hasattr(request.state, "asker"):  # before the login was looked for
            request.state.asker = Asker(None, session, self._sessions.token(session), {})
        context = {"problem": f"{refused}.", "heading": "The form is refused"}
        return self._renderer.response(request, "problem.html", context, refused.status)

    def _without_login(self, request: Request, path: str) -> Response:
        if not isinstance(self._access, PasswordAccess):
            raise Refused(HTTPStatus.FORBIDDEN, "no access")
        if request.method == "POST" or path.startswith("/live/"):
            raise Refused(HTTPStatus.UNAUTHORIZED, "log in first")
        query = f"?{request.url.query}" if request.url.query else ""
        wanted = urlencode({"next": path + query})
        root = request.scope.get("root_path", "")
        return RedirectResponse(f"{root}/login?{wanted}", HTTPStatus.SEE_OTHER)

    def _check_operator(self, login: Login) -> None:
        if self._read_only:
            raise Refused(HTTPStatus.FORBIDDEN, "this dashboard is read-only", is_page=True)
        if login.role != "operator":
            reason = "only an operator may change something"
            raise Refused(HTTPStatus.FORBIDDEN, reason, is_page=True)

    def _sender(
        self, request: Request, send: Send, session: Session, known: Session | None
    ) -> Send:
        """Return the function that adds our headers, and the cookie of a new session."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                is_page = headers.get("content-type", "").startswith("text/html")
                if known is None and is_page and "set-cookie" not in headers:
                    cookie = Response()
                    self._sessions.write(cookie, session, cookie_path(request))
                    headers.append("set-cookie", cookie.headers["set-cookie"])
            await send(message)

        return with_headers


def cookie_path(request: Request) -> str:
    """Return the path under which browsers send the cookie: where the dashboard is mounted."""
    return request.scope.get("root_path", "") or "/"


def route_path(request: Request) -> str:
    """Return the path as the router sees it; `request.url` is made from the Host header too."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


def host_name(request: Request) -> str:
    """Return the host that the browser asked for: a page of another site may have led it here."""
    found = HOST.fullmatch(request.headers.get("host", ""))
    return found[1].strip("[]").lower() if found else ""


def check_origin(request: Request) -> None:
    """Refuse a form that another site's page sent. The Host header was checked before."""
    origin = request.headers.get("origin")
    if origin is None:  # old browsers leave it out; the token protects them
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(HTTPStatus.FORBIDDEN, "the form comes from another site")
    elif split_url(origin).netloc != request.headers.get("host"):
        raise Refused(HTTPStatus.FORBIDDEN, "the form comes from another site")


async def read_form(request: Request) -> dict[str, str]:
    """Read a form, urlencoded as browsers send it; of fields with one name the last counts."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send a form")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the form is too large")
    try:
        text = bytes(body).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError as exc:
        raise Refused(HTTPStatus.BAD_REQUEST, "the form cannot be read") from exc
