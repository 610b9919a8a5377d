"""The alternatives to pgqpy, a module each: `set_up(dsn)` makes the peer's schema in a database."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

FROM_PYPI = ("pgmq", "pgqueuer", "procrastinate")


class Peer(Protocol):
    """A module of this package.

    Attributes:
        COUNT: the query that counts its events.
    """

    COUNT: str

    def set_up(self, dsn: str) -> None:
        """Make the peer's schema in a fresh database."""
        ...

    def insert(self, data: str) -> str:
        """Return the statement that inserts one event, for pgbench."""
        ...


def installed(peer: str) -> bool:
    """Say whether Python finds the peer; a bare table is always there."""
    return peer == "bare" or find_spec(peer) is not None


def load(peer: str) -> Peer:
    """Return a peer."""
    return cast("Peer", import_module(f"benchmarks.peers.{peer}"))
