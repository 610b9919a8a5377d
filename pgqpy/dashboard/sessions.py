"""Signed cookies: who has logged in, and the token that forms carry against forged requests."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, NamedTuple

from itsdangerous import BadSignature, URLSafeTimedSerializer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

COOKIE = "pgqpy_dashboard"
LIFETIME = 12 * 3600  # seconds until a login ends
TOKEN = "token"  # noqa: S105  # the name of the field of forms, no secret


class Session(NamedTuple):
    """A browser: a random number, and the name of its login; None: not logged in."""

    number: str
    name: str | None = None


class Sessions:
    """Reads and writes the cookie of a session. All end with the process: its key is random."""

    def __init__(self, *, secure: bool = False) -> None:
        """Make a key. `secure`: browsers send the cookie by HTTPS only."""
        self._secure = secure
        self._key = secrets.token_bytes(32)
        self._signer = URLSafeTimedSerializer(self._key, salt=COOKIE)
        self._ended: dict[str, float] = {}  # time of the logout by number, until the cookie expires

    def read(self, request: Request) -> Session | None:
        """Return the session of a request; None without a valid cookie, or after a logout."""
        try:
            found = self._signer.loads(request.cookies.get(COOKIE, ""), max_age=LIFETIME)
        except BadSignature:
            return None
        return None if found[0] in self._ended else Session(*found)

    def end(self, session: Session) -> None:
        """Refuse the cookie of this session from now on."""
        now = time.monotonic()
        self._ended = {key: at for key, at in self._ended.items() if now - at < LIFETIME}
        self._ended[session.number] = now

    def is_valid(self, request: Request, session: Session) -> bool:
        """Say whether the login of a request still holds. A session without one never ends."""
        return session.name is None or self.read(request) == session

    def begin(self, name: str | None = None) -> Session:
        """Return a new session. A login gets one, so that nobody knows its number before."""
        return Session(secrets.token_urlsafe(16), name)

    def write(self, response: Response, session: Session, path: str) -> None:
        """Set the cookie, for all pages under a path."""
        response.set_cookie(
            COOKIE,
            str(self._signer.dumps(session)),
            max_age=LIFETIME,
            path=path,
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )

    def token(self, session: Session) -> str:
        """Return what each form of this session has to carry."""
        return hmac.new(self._key, session.number.encode(), hashlib.sha256).hexdigest()

    def is_token(self, session: Session, token: str) -> bool:
        """Say whether a form belongs to this session."""
        return hmac.compare_digest(self.token(session).encode(), token.encode(errors="replace"))
