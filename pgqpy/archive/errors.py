"""The errors of archives, and the check of the packages that they need."""

from __future__ import annotations

from importlib.util import find_spec

from pgqpy.errors import MissingExtra, PgqError


class ArchiveMismatch(PgqError):
    """The archive is from another queue, or from another history of it. Data: `.queue`."""


class StoreFailed(PgqError):
    """The store of the archive refused a call."""


class ArchiveDamaged(PgqError):
    """A file of the archive is not what was written. Data: `.path`."""

    path: str | None = None


class ReplayRefused(PgqError):
    """A replay of this consumer is done, unfinished or running. Data: `.queue`, `.consumer`."""


NEEDED = ("pyarrow", "numpy", "fsspec")


def check_packages() -> None:
    """Raise MissingExtra unless the packages of the extra `archive` are installed."""
    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtra(f"{package} is needed: pip install 'pgqpy[archive]'")
