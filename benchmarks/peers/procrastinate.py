"""procrastinate, a PyPI package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from procrastinate.tasks import Task
    from procrastinate.types import JSONValue

QUEUE, TASK = "bench", "bench"
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
