"""The page to log in with a password, and the bound on wrong passwords."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse

from pgqpy.dashboard.access import check_password
from pgqpy.dashboard.guard import cookie_path
from pgqpy.dashboard.render import split_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from pgqpy.dashboard.access import PasswordAccess
    from pgqpy.dashboard.render import Renderer
    from pgqpy.dashboard.sessions import Sessions

AFTER_WRONG = 1.0  # seconds until an address may try the same name again
REMEMBERED = 1000  # addresses with names
MOST_WAITING = 32  # tries at once; the others are refused


class Throttle:
    """The bound on tries: after a wrong password for a name, the address has to wait.

    Of another name nobody has to wait: behind a proxy, all browsers have one address.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any wrong try."""
        self._clock = clock
        self._wrong: dict[tuple[str, str], float] = {}  # address and name; the oldest first
        self._waiting = 0
        self._one = asyncio.Semaphore(1)  # a try costs 50 ms of a core

    def may_try(self, who: tuple[str, str]) -> bool:
        """Say whether this address may try this name now."""
        last = self._wrong.get(who)
        waits = last is not None and self._clock() - last < AFTER_WRONG
        return not waits and self._waiting < MOST_WAITING

    async def try_once(self, who: tuple[str, str], check: Callable[[], bool]) -> bool | None:
        """Check a password, one after the other, in a thread; None: it is too soon."""
        self._waiting += 1
        try:
            async with self._one:
                if not self.may_try(who):
                    return None
                is_right = await asyncio.to_thread(check)
        finally:
            self._waiting -= 1
        if not is_right:
            self._wrong.pop(who, None)
            self._wrong[who] = self._clock()
            if len(self._wrong) > REMEMBERED:
                del self._wrong[next(iter(self._wrong))]
        return is_right


class LoginPages:
    """The pages /login and /logout."""

    def __init__(self, access: PasswordAccess, sessions: Sessions, renderer: Renderer) -> None:
        """Serve the logins of a file of passwords."""
        self._entries = dict(access.entries)
        self._sessions = sessions
        self._renderer = renderer
        self._throttle = Throttle()

    async def login(self, request: Request) -> Response:
        """Show the form, or check what it sent."""
        if request.method == "POST":
            return await self._try(request)
        return self._page(request, HTTPStatus.OK, "", request.query_params.get("next", "/"))

    async def logout(self, request: Request) -> Response:
        """End the session of this browser, also where somebody has copied its cookie."""
        self._sessions.end(request.state.asker.session)
        response = RedirectResponse(_root(request) + "/login", HTTPStatus.SEE_OTHER)
        self._sessions.write(response, self._sessions.begin(), cookie_path(request))
        return response

    async def _try(self, request: Request) -> Response:
        form = request.state.asker.form
        wanted, name = form.get("next", "/"), form.get("name", "")
        who = (request.client.host if request.client else "", name)

        def check() -> bool:
            return check_password(self._entries, name, form.get("password", "")) is not None

        is_right = (
            await self._throttle.try_once(who, check) if self._throttle.may_try(who) else None
        )
        if is_right is None:
            text = "Too many tries. Wait a second, then try again."
            return self._page(request, HTTPStatus.TOO_MANY_REQUESTS, text, wanted)
        if not is_right:
            text = "The name or the password is wrong."
            return self._page(request, HTTPStatus.UNAUTHORIZED, text, wanted)
        response = RedirectResponse(_root(request) + local_path(wanted), HTTPStatus.SEE_OTHER)
        self._sessions.write(response, self._sessions.begin(name), cookie_path(request))
        return response

    def _page(self, request: Request, status: HTTPStatus, problem: str, wanted: str) -> Response:
        context = {"problem": problem, "next": local_path(wanted)}
        return self._renderer.response(request, "login.html", context, status)


def local_path(wanted: str) -> str:
    """Return the path if it leads to a page of ours, else that of the overview."""
    parts = split_url(wanted)
    is_ours = not parts.scheme and not parts.netloc and wanted.startswith("/")
    if not is_ours or wanted.startswith("//") or not wanted.isprintable() or "\\" in wanted:
        return "/"
    return wanted


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
