"""The settings that every program has: where the database is."""

from __future__ import annotations

import os


def default_dsn() -> str:
    """Return PGQPY_DSN, a libpq connection string or URI; empty means libpq's own PG* variables."""
    return os.environ.get("PGQPY_DSN", "")
