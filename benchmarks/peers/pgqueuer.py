"""pgqueuer, a PyPI package."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqueuer.queries import SyncQueries

ENTRYPOINT = "bench"
COUNT = "select count(*) from pgqueuer"


def set_up(dsn: str) -> None:
    """Make its schema with its own install."""
    asyncio.run(_install(dsn))


async def _install(dsn: str) -> None:
    from pgqueuer.queries import Queries  # noqa: PLC0415  # a smoke goes without

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await Queries.from_psycopg_connection(connection).install()


def insert(data: str) -> str:
    """Return the statement by which its client enqueues one event, with the values in it."""
    from pgqueuer.adapters.persistence.qb import QueryQueueBuilder  # noqa: PLC0415  # as above

    values = [
        "'{0}'::int[]",
        f"'{{{ENTRYPOINT}}}'::text[]",
        f"array['{data}'::bytea]",
        "'{0}'::interval[]",
        "'{NULL}'::text[]",
        "array['null'::jsonb]",
    ]
    # In one line, as pgbench wants it, and so without comments.
    query = re.sub(r"--.*|\s+", " ", QueryQueueBuilder().build_enqueue_query())
    return re.sub(r"\$(\d)", lambda found: values[int(found[1]) - 1], query) + ";"


@contextmanager
def queries(dsn: str) -> Iterator[SyncQueries]:
    """Open a connection; return the object that enqueues by it."""
    from pgqueuer.db import SyncPsycopgDriver  # noqa: PLC0415  # as above
    from pgqueuer.queries import SyncQueries  # noqa: PLC0415  # as above

    with psycopg.connect(dsn, autocommit=True) as connection:
        yield SyncQueries(SyncPsycopgDriver(connection))


async def drain(dsn: str, batch: int, wait: float | None = None) -> tuple[int, float]:
    """Let its queue manager work until nothing is left; return events and seconds to the last.

    It takes `batch` events at a time and handles them side by side. A handler waits for so many
    seconds, or does nothing.
    """
    from pgqueuer import PgQueuer  # noqa: PLC0415  # as above
    from pgqueuer.types import QueueExecutionMode  # noqa: PLC0415  # as above

    seen, last = 0, 0.0
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        manager = PgQueuer.from_psycopg_connection(connection)

        async def handle(_event: object) -> None:
            nonlocal seen, last
            if wait is not None:
                await asyncio.sleep(wait)
            seen += 1
            last = time.perf_counter()

        manager.entrypoint(ENTRYPOINT)(handle)
        began = time.perf_counter()
        await manager.run(batch_size=batch, mode=QueueExecutionMode.drain)
        return seen, last - began
