"""Exceptions to raise."""

from __future__ import annotations

import pytest


class Mute(Exception):
    """Has no text."""

    def __str__(self) -> str:
        """Refuse."""
        raise LookupError("no text")

    __repr__ = __str__


def raised(error: Exception) -> Exception:
    """Return an exception that was raised, with its traceback."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value
