"""The rows of ``pgqpy ticker status``: the ticker of each database, the state of each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pgqpy import locks
from pgqpy.cli import failures
from pgqpy.cli.options import Target
from pgqpy.cli.output import show_rows
from pgqpy.cluster_names import read_any_name
from pgqpy.ticker.session import label
from pgqpy.watch.read import SKIPPED
from pgqpy.watch.states import tick_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from typing_extensions import LiteralString

    from pgqpy import Client

    Row = dict[str, Any]

COLUMNS = {
    "database": "database",
    "queue": "queue",
    "state": "state",
    "tick age": "last_tick_age",
    "new": "new_events",
    "ticker": "ticker",
    "since": "since",
    "standbys": "standbys",
}
HEALTHY = ("ok", "paused", "external")

STANDBYS: LiteralString = f"""
    select count(*) from ({locks.HOLDERS}) h
    where class = 7366513 and object = 3 and pid is distinct from %s
"""  # noqa: S608  # our own query within our own
EXTENSION = "select from pg_extension where extname = 'pgq'"


def show_status(dsns: Iterable[str], *, as_json: bool) -> bool:
    """Print a row for each queue of each database; return whether all are healthy."""
    rows = [row for dsn in dsns for row in _database(dsn)]
    for row in rows:
        if row["error"]:
            click.echo(f"error: {row['database']}: {row['error']}", err=True)
    show_rows(rows, COLUMNS, as_json=as_json)
    return all(row["state"] in HEALTHY for row in rows)


def _database(dsn: str) -> Iterator[Row]:
    """Yield a row for each queue; a row without one if there is none or on an error."""
    row: Row = dict.fromkeys(("database", "queue", "state", *COLUMNS.values(), "pid", "error"))
    try:
        with Target(dsn).client() as client:
            rows = list(_queues(client))
    except click.UsageError:
        raise  # the DSN itself is wrong, and no message may quote it
    except Exception as exc:  # noqa: BLE001  # the other databases are shown all the same
        rows = [{"state": "failed", "error": failures.explain(exc)}]
    for each in rows:
        yield row | {"database": label(dsn)} | each


def _queues(client: Client) -> Iterator[Row]:
    infos = client.get_queue_info()
    run = client.connection.execute
    cursor = read_any_name(client.connection.cursor())
    found = cursor.execute(locks.HOLDER, [locks.ENGINE, locks.TICKING]).fetchone()
    holder = locks.Holder(*found) if found else None
    pid = holder.pid if holder else None
    standbys = run(STANDBYS, [pid]).fetchone()
    skipped = {name for (name,) in run(SKIPPED).fetchall()}
    # PGQ's own daemon pgqd does not hold pgqpy's lock.
    served = bool(holder and holder.may_be_ticker) or bool(run(EXTENSION).fetchone())
    common: Row = {
        "ticker": str(holder._replace(start=None)) if holder else None,
        "pid": pid,
        "since": holder.start if holder else None,
        "standbys": standbys[0] if standbys else 0,
    }
    if not infos:
        yield common | {"state": "ok" if served else "no ticker"}
    for info in infos:
        yield common | {
            "queue": info.queue_name,
            "state": tick_state(info, served=served, skipped=info.queue_name in skipped),
            "last_tick_age": info.ticker_lag,
            "new_events": info.ev_new,
        }
