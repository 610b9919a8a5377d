"""From PostgreSQL's errors to ours."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from pgqpy import sqlstates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@contextmanager
def translated(
    function: str, about: Mapping[str, object], *, spared: Sequence[BaseException] = ()
) -> Iterator[None]:
    """Raise ours for what `pgq.function` raised, where it is about queues.

    What is in `spared` by then is not `pgq.function`'s, and passes as it is.
    """
    try:
        yield
    except psycopg.Error as exc:
        found = sqlstates.from_database(exc, function, about)
        if found is None or any(exc is each for each in spared):
            raise
        raise found from exc
