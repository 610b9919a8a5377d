"""The errors of archives."""

from __future__ import annotations

from pgqpy.errors import PgqError


class ArchiveMismatch(PgqError):
    """The archive is from another queue, or from another history of it. Data: `.queue`."""


class StoreFailed(PgqError):
    """The store of the archive refused a call."""


class ArchiveDamaged(PgqError):
    """A file of the archive is not what was written. Data: `.path`."""

    path: str | None = None


class ReplayRefused(PgqError):
    """A replay of this consumer is done, unfinished or running. Data: `.queue`, `.consumer`."""
