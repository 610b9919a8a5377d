"""The file of passwords: a line NAME:ROLE:HASH for each login, hashed by scrypt. No I/O."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Literal, NamedTuple, get_args

from pgqpy.errors import InvalidArgument

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
