"""The application: its routes, its pages, their live parts, and the texts of its errors."""

from __future__ import annotations

import logging
import os
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timezone
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import psycopg
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pgqpy.dashboard.access import PasswordAccess
from pgqpy.dashboard.changes import Changes
from pgqpy.dashboard.guard import Guard, route_path
from pgqpy.dashboard.live import Feed
from pgqpy.dashboard.login import LoginPages
from pgqpy.dashboard.page import Database, View
from pgqpy.dashboard.pages import PAGES
from pgqpy.dashboard.render import Renderer
from pgqpy.dashboard.sessions import Sessions
from pgqpy.errors import (
    ConsumerRunning,
    InvalidArgument,
    NotFound,
    PgqError,
    RangeExpired,
    WrongMode,
)
from pgqpy.texts import describe, error_text
from pgqpy.watch import Watcher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from pgqpy.dashboard.access import Access
    from pgqpy.dashboard.page import Page
    from pgqpy.watch import Snapshot

logger = logging.getLogger(__name__)


class NotYet(Exception):
    """The database has not answered since the dashboard began."""


def explain(exc: Exception) -> tuple[HTTPStatus, str]:
    """Return the status and the text of an error, for the browser."""
    known: tuple[tuple[Any, HTTPStatus, Callable[[Exception], str]], ...] = (
        (
            (NotFound, RangeExpired),
            HTTPStatus.NOT_FOUND,
            error_text,
        ),
        ((WrongMode, ConsumerRunning), HTTPStatus.CONFLICT, error_text),
        (InvalidArgument, HTTPStatus.BAD_REQUEST, error_text),
        (
            psycopg.errors.InsufficientPrivilege,
            HTTPStatus.FORBIDDEN,
            lambda exc: f"{primary(exc)}: grant pgq_reader to the role of the dashboard allows it",
        ),
        (
            psycopg.errors.QueryCanceled,
            HTTPStatus.SERVICE_UNAVAILABLE,
            lambda _exc: "The query took longer than five seconds: name a type, a tick or a time.",
        ),
        (psycopg.DataError, HTTPStatus.BAD_REQUEST, primary),  # a time or text that no table has
        (psycopg.Error, HTTPStatus.SERVICE_UNAVAILABLE, primary),
        ((NotYet, PgqError), HTTPStatus.SERVICE_UNAVAILABLE, error_text),
    )
    for kind, status, write in known:
        if isinstance(exc, kind):
            return status, write(exc)
    logger.error(
        "a page failed: %s", describe(exc), exc_info=exc if os.environ.get("PGQPY_DEBUG") else None
    )
    return HTTPStatus.INTERNAL_SERVER_ERROR, "This page has an error; the log names it."


def primary(exc: Exception) -> str:
    """Return the first line of the server's error, without the statement."""
    first = exc.diag.message_primary if isinstance(exc, psycopg.Error) else None
    return first or error_text(exc).partition("\\n")[0]  # error_text has escaped the line breaks


FAILED = "The change failed"
NO_PAGE = {
    HTTPStatus.NOT_FOUND: "There is no page at this address.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address is for a form of another page.",
}


class Dashboard:
    """The application of one database."""

    def __init__(
        self,
        dsn: str,
        access: Access,
        hosts: tuple[str, ...] | None,
        *,
        https: bool = False,
        read_only: bool = False,
        hide_payloads: bool = False,
    ) -> None:
        """Build it; nothing is asked yet. Raises ConnectionFailed if the DSN is not valid.

        `hosts` are the values of the Host header that it answers to; None: all, where the
        application around it checks them. The rest is as in `pgqpy.dashboard.dashboard`.
        """
        self._database = Database(dsn, hide_payloads=hide_payloads)
        self._audit = Database(dsn, hide_payloads=True)
        self.feed = Feed(Watcher(dsn), idle=self._close)
        has_logins = isinstance(access, PasswordAccess)
        self._changes = Changes(dsn, read_only=read_only)
        self._renderer = Renderer(has_logins=has_logins, jobs=self._changes.jobs)
        self._sessions = Sessions(secure=https)
        guard = Middleware(
            Guard,
            access=access,
            renderer=self._renderer,
            sessions=self._sessions,
            hosts=hosts,
            read_only=read_only,
        )
        self.app = Starlette(
            routes=self._routes(access),
            middleware=[guard],
            exception_handlers={HTTPException: self._no_page},
            lifespan=self._lifespan,
        )

    def _routes(self, access: Access) -> list[Route | Mount]:
        routes: list[Route | Mount] = [
            Route("/healthz", health),
            Mount("/static", StaticFiles(packages=[("pgqpy.dashboard", "static")])),
        ]
        if isinstance(access, PasswordAccess):
            pages = LoginPages(access, self._sessions, self._renderer)
            routes.append(Route("/login", pages.login, methods=["GET", "POST"]))
            routes.append(Route("/logout", pages.logout, methods=["POST"]))
        routes.append(Route("/change/{action}", self._change, methods=["POST"]))
        for page in PAGES:
            routes.append(Route(page.path, partial(self._show, page)))
            if page.live:
                routes.append(Route(f"/live{page.path}", partial(self._stream, page)))
        return routes

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await self.feed.stop()
            await self._changes.close()
            self._close()

    def _close(self) -> None:
        self._database.close()
        self._audit.close()
        self._changes.close_idle()

    async def _show(self, page: Page, request: Request) -> Response:
        """Answer with a whole page; with its problem if the database cannot be asked."""
        snapshot = await self.feed.snapshot()
        done = self._changes.take_outcome(request.state.asker) if request.method == "GET" else None
        try:
            context = {**await self._collect(page, request, snapshot), "done": done}
            return self._renderer.response(request, page.template, context)
        except Exception as exc:  # noqa: BLE001  # nothing ends in a traceback
            status, text = explain(exc)
            context = {
                "problem": text,
                "snapshot": snapshot,
                "done": done,
                "reload": status >= HTTPStatus.INTERNAL_SERVER_ERROR,
            }
            return self._renderer.response(request, "problem.html", context, status)

    async def _change(self, request: Request) -> Response:
        """Make a change, or say why not."""
        try:
            return await self._changes.post(request)
        except HTTPException:
            raise
        except Exception as exc:  # noqa: BLE001  # nothing ends in a traceback
            status, text = explain(exc)
            context = {"problem": text, "snapshot": self.feed.last, "heading": FAILED}
            return self._renderer.response(request, "problem.html", context, status)
        finally:
            self.feed.forget_texts()

    async def _stream(self, page: Page, request: Request) -> Response:
        """Answer with a stream of the page's live part, one message for each snapshot."""

        async def make() -> str:
            try:
                context = await self._collect(page, request, self.feed.last, whole=False)
                return self._renderer.part(request, page.template, context)
            except Exception as exc:  # noqa: BLE001  # as above
                context = {"problem": explain(exc)[1], "snapshot": self.feed.last}
                return self._renderer.part(request, "problem.html", context)

        async def messages() -> AsyncIterator[str]:
            async with aclosing(self.feed.follow()) as snapshots:
                async for snapshot in snapshots:
                    if not self._sessions.is_valid(request, request.state.asker.session):
                        return  # the guard checks a stream only when it starts
                    if snapshot is None:
                        yield ":\n\n"
                        continue
                    asker = request.state.asker
                    is_operator = asker.login is not None and asker.login.role == "operator"
                    # The forms of operators carry the token of their session.
                    key = (str(request.url), asker.login, asker.token if is_operator else "")
                    yield message(await self.feed.text(key, make))

        return StreamingResponse(messages(), media_type="text/event-stream")

    async def _collect(
        self, page: Page, request: Request, snapshot: Snapshot, *, whole: bool = True
    ) -> dict[str, Any]:
        live = f"/live{page.path}?{request.url.query}" if page.live else None
        may = await self._changes.allowed(request.state.asker)
        common = {"snapshot": snapshot, "live": live, "params": request.query_params, "may": may}
        if snapshot.taken is None and snapshot.no_answer is not None:
            raise NotYet(snapshot.no_answer.what)
        view = partial(
            View,
            snapshot=snapshot,
            params=request.query_params,
            asker=request.state.asker,
            now=datetime.now(timezone.utc),
            whole=whole,
        )

        if not page.asks:
            return {**page.collect(view(asked=None)), **common}
        database = self._audit if page.audits else self._database
        return {**await database.run(lambda asked: page.collect(view(asked=asked))), **common}

    async def _no_page(self, request: Request, exc: Exception) -> Response:
        """Answer an address that has no page; a script or a stream is told in plain text."""
        assert isinstance(exc, HTTPException)  # noqa: S101  # the handler of this class
        status = HTTPStatus(exc.status_code)
        is_static = request.scope.get("root_path", "").endswith("/static")  # Mount adds it
        if is_static or route_path(request).startswith(("/live/", "/healthz")):
            return PlainTextResponse(f"{status.phrase}\n", status, exc.headers)
        text = NO_PAGE.get(status, f"{status.phrase}.")
        # Addresses that begin as the login page does come here without a login too.
        snapshot = None if request.state.asker.login is None else self.feed.last
        context = {"problem": text, "snapshot": snapshot}
        answer = self._renderer.response(request, "problem.html", context, status)
        answer.headers.update(exc.headers or {})
        return answer


async def health(_request: Request) -> Response:
    """Say that the dashboard runs; it asks no database."""
    return PlainTextResponse("ok\n")


def message(html: str) -> str:
    """Return a server-sent event with this data."""
    return "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"
