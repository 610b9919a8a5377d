"""What ends a demo before its verdict."""

from __future__ import annotations

from pgqpy.errors import PgqError


class DemoFailed(PgqError):
    """The demo could not be played to its end."""
