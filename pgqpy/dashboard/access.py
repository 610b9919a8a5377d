"""Access to the dashboard: the user of a request, the user's role, and the file of passwords."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from inspect import isawaitable
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from ipaddress import IPv4Network, IPv6Network

    from starlette.requests import Request

    from pgqpy.dashboard.sessions import Session

    Network = IPv4Network | IPv6Network

Role = Literal["viewer", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)

SHORTEST = 12  # characters of a password
COST, BLOCK, PARALLEL = 2**14, 8, 1  # 16 MB and about 50 ms a try
MEMORY = 2**26  # bytes that scrypt may use, more than a line may ask for
SALT, KEY = 16, 32  # bytes


class Entry(NamedTuple):
    """A login: its name, its role and the hash of its password."""

    name: str
    role: Role
    salt: bytes
    key: bytes


def make_entry(name: str, role: str, password: str) -> str:
    """Return the line of a login. InvalidArgument says what is wrong with it."""
    if len(password) < SHORTEST:
        raise InvalidArgument(f"the password is too short: use at least {SHORTEST} characters")
    salt = secrets.token_bytes(SALT)
    line = f"{name}:{role}:scrypt${_text(salt)}${_text(_key(password, salt))}"
    _parse(line, "the login")
    return line


def parse_entries(text: str) -> dict[str, Entry]:
    """Return the logins of a file by name. InvalidArgument names the line that is wrong."""
    entries: dict[str, Entry] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        entry = _parse(line, f"line {number}")
        if entry.name in entries:
            raise InvalidArgument(f"line {number}: {entry.name!r} has two lines: remove one")
        entries[entry.name] = entry
    if not entries:
        raise InvalidArgument(
            "it has no login: pgqpy dashboard --new-login NAME prints a line for it"
        )
    return entries


def check_password(entries: dict[str, Entry], name: str, password: str) -> Entry | None:
    """Return the login if the password is right. It takes as long for names that do not exist."""
    entry = entries.get(name)
    salt, key = (entry.salt, entry.key) if entry else (b"", b"")
    is_right = hmac.compare_digest(_key(password, salt), key)
    return entry if is_right else None


def _parse(line: str, where: str) -> Entry:
    name, _, rest = line.partition(":")
    role, _, hashed = rest.partition(":")
    if not name or not name.isprintable() or name != name.strip():
        raise InvalidArgument(f"{where}: the name is empty or cannot be printed")
    for known in ROLES:
        if role == known:
            return Entry(name, known, *_parse_hash(hashed, where))
    raise InvalidArgument(f"{where}: the role is viewer or operator, as in NAME:viewer:scrypt$…")


def _parse_hash(hashed: str, where: str) -> tuple[bytes, bytes]:
    kind, *parts = hashed.split("$")
    try:
        salt, key = (base64.b64decode(part, validate=True) for part in parts)
    except ValueError:
        salt = key = b""
    if kind != "scrypt" or len(salt) != SALT or len(key) != KEY:
        raise InvalidArgument(
            f"{where}: this is no hash of a password: pgqpy dashboard --new-login makes one"
        )
    return salt, key


def _key(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"),
        salt=salt,
        n=COST,
        r=BLOCK,
        p=PARALLEL,
        maxmem=MEMORY,
        dklen=KEY,
    )


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


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
