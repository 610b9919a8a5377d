"""Access to the dashboard: the ways to find the user of a request, and the user's role."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import isawaitable
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pgqpy.dashboard.passwords import ROLES
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from ipaddress import IPv4Network, IPv6Network

    from starlette.requests import Request

    from pgqpy.dashboard.passwords import Entry, Role
    from pgqpy.dashboard.sessions import Session

    Network = IPv4Network | IPv6Network


class Login(NamedTuple):
    """A user: the name for the audit, and the role."""

    name: str
    role: Role


if TYPE_CHECKING:
    Decision = Login | Role | None
    Decide = Callable[[Request], Decision | Awaitable[Decision]]


class Access(Protocol):
    """Finds the user of a request."""

    def find(self, request: Request, session: Session) -> Login | Awaitable[Login | None] | None:
        """Return the login; None: no access."""


class LoopbackAccess:
    """Access for everybody, as viewer. Only for an address that other machines cannot reach."""

    def find(self, _request: Request, _session: Session) -> Login | None:
        """Return a viewer."""
        return Login("somebody on this machine", "viewer")


@dataclass(frozen=True)
class PasswordAccess:
    """Access by the passwords of a file."""

    entries: Mapping[str, Entry]

    def find(self, _request: Request, session: Session) -> Login | None:
        """Return the login of the session, with the role that the file gives it."""
        entry = None if session.name is None else self.entries.get(session.name)
        return None if entry is None else Login(entry.name, entry.role)


@dataclass(frozen=True)
class HeaderAccess:
    """Access by a proxy that names the user in a header. From other addresses it is ignored.

    Attributes:
        header: its name, as X-Forwarded-User.
        proxies: the addresses of the proxy.
        operators: the users who are operators; the others are viewers.
    """

    header: str
    proxies: tuple[Network, ...]
    operators: frozenset[str] = field(default_factory=frozenset)

    def find(self, request: Request, _session: Session) -> Login | None:
        """Return the user that the proxy names."""
        names = request.headers.getlist(self.header)
        # Two headers: one of them may be from the browser.
        if len(names) != 1 or not names[0].strip() or not self._is_from_proxy(request):
            return None
        name = names[0].strip()
        return Login(name, "operator" if name in self.operators else "viewer")

    def _is_from_proxy(self, request: Request) -> bool:
        if request.client is None:  # a Unix socket
            return False
        try:
            address = ip_address(request.client.host)
        except ValueError:
            return False
        return any(address in network for network in self.proxies)


@dataclass(frozen=True)
class FunctionAccess:
    """Access by a function of the application. It returns the role; None: no access."""

    function: Decide

    async def find(self, request: Request, _session: Session) -> Login | None:
        """Return the login that the function names. ValueError: it has no such role."""
        found = self.function(request)
        found = await found if isawaitable(found) else found
        if found is None:
            return None
        login = found if isinstance(found, Login) else Login(found, found)
        if login.role not in ROLES:
            raise ValueError(f"access returned {login.role!r}: return one of {ROLES}, or None")
        return login


def parse_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Return the addresses of proxies, such as 10.0.0.5 or 10.0.0.0/24."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as exc:
        raise InvalidArgument(f"no address of a proxy: {exc}") from exc


def is_loopback(host: str) -> bool:
    """Say whether only programs on this machine reach the address. Names are not looked up."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
