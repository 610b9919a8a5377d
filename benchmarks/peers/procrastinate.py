"""procrastinate, a PyPI package."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from procrastinate.tasks import Task
    from procrastinate.types import JSONValue

QUEUE, TASK = "bench", "bench"
CONCURRENCY = 10  # tasks side by side; its default is 1
COUNT = "select count(*) from procrastinate_jobs"


def set_up(dsn: str) -> None:
    """Make its schema with its own install."""
    from procrastinate import App, SyncPsycopgConnector  # noqa: PLC0415  # as above

    with App(connector=SyncPsycopgConnector(conninfo=dsn)).open() as opened:
        opened.schema_manager.apply_schema()


def insert(data: str) -> str:
    """Return the statement by which its client defers one event, with the values in it."""
    row = f"row('{QUEUE}', '{TASK}', 0, null, null, '{data}'::jsonb, null)"
    return (
        "select unnest(procrastinate_defer_jobs_v1("
        f"array[{row}]::procrastinate_job_to_defer_v1[])) as id;"
    )


@contextmanager
def task(dsn: str) -> Iterator[Task[Any, Any, Any]]:
    """Open an application with one task, which does nothing."""
    from procrastinate import App, SyncPsycopgConnector  # noqa: PLC0415  # as above

    app = App(connector=SyncPsycopgConnector(conninfo=dsn))
    with app.open():
        yield app.task(name=TASK, queue=QUEUE)(nothing)


def arguments(events: list[tuple[str, str]]) -> Iterator[dict[str, JSONValue]]:
    """Return the keyword arguments of the task for each event."""
    return ({"data": data} for _, data in events)


def nothing(data: str) -> None:
    """Do nothing."""


async def drain(
    dsn: str, concurrency: int = CONCURRENCY, wait: float | None = None
) -> tuple[int, float]:
    """Let it work until nothing is left; return events and seconds to the last.

    A task waits for so many seconds, or does nothing.
    """
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415  # as above

    seen, last = 0, 0.0

    async def handle(data: str) -> None:  # noqa: ARG001  # the argument of the task
        nonlocal seen, last
        if wait is not None:
            await asyncio.sleep(wait)
        seen += 1
        last = time.perf_counter()

    app = App(connector=PsycopgConnector(conninfo=dsn))
    app.task(name=TASK, queue=QUEUE)(handle)
    async with app.open_async():
        began = time.perf_counter()
        await app.run_worker_async(
            wait=False, concurrency=concurrency, install_signal_handlers=False
        )
        return seen, last - began
