"""The translation of PostgreSQL's errors into PgqError."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from pgqpy import sqlstates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@contextmanager
def translated(
    function: str, error_data: Mapping[str, object], *, ignored: Sequence[BaseException] = ()
) -> Iterator[None]:
    """Raise a PgqError for an error of PostgreSQL that `pgq.function` raised on purpose.

    Other errors pass unchanged, and so do those that are in `ignored` by then.
    """
    try:
        yield
    except psycopg.Error as exc:
        found = sqlstates.from_database(exc, function, error_data)
        if found is None or any(exc is each for each in ignored):
            raise
        raise found from exc
