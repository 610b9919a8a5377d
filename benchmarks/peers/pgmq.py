"""pgmq, by the SQL inside its PyPI package."""

from __future__ import annotations

import psycopg

QUEUE = "bench"
SEND_BATCH = "select * from pgmq.send_batch(queue_name=>%s::text, msgs=>%s::jsonb[])"


def set_up(dsn: str) -> None:
    """Run pgmq's install script and create a queue."""
    from pgmq.install import install_pgmq_from_sql  # noqa: PLC0415  # a smoke goes without

    install_pgmq_from_sql(dsn=dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pgmq.create(%s)", (QUEUE,))


def insert(data: str) -> str:
    """Return the statement that sends one event, as its client does."""
    return f"select * from pgmq.send('{QUEUE}', '{data}'::jsonb);"


COUNT = f"select count(*) from pgmq.q_{QUEUE}"
