"""procrastinate, a PyPI package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from procrastinate import App

QUEUE, TASK = "bench", "bench"
COUNT = "select count(*) from procrastinate_jobs"


def app(dsn: str) -> App:
    """Return its application object, not yet open, with a pool of one or more connections."""
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415  # a smoke goes without

    return App(connector=PsycopgConnector(conninfo=dsn))


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
