"""The expectation of an error by its SQLSTATE, where a class has several."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pgqpy.consumers.connections import TRANSACTION_ENDED
from pgqpy.errors import InvalidEvent, PgqError, WrongTransaction
from pgqpy.sqlstates import BY_SQLSTATE

if TYPE_CHECKING:
    from collections.abc import Iterator

CLASSES: dict[str, type[PgqError]] = {
    **BY_SQLSTATE,
    TRANSACTION_ENDED: WrongTransaction,
    "54000": InvalidEvent,
}


@contextmanager
def refused(sqlstate: str, match: str | None = None) -> Iterator[pytest.ExceptionInfo[PgqError]]:
    """Expect the error with this SQLSTATE, of its class, with such a text."""
    with pytest.raises(CLASSES[sqlstate], match=match) as caught:
        yield caught
    assert caught.value.sqlstate == sqlstate
