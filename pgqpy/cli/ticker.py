"""``pgqpy ticker``: run the daemon, or show its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pgqpy import locks
from pgqpy.cli import failures
from pgqpy.cli.options import Noun, Target, json_option, pass_target
from pgqpy.cli.output import say, show_rows

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
    select count(*) from ({locks.OWNERS}) h
    where class = {locks.ENGINE} and object = {locks.WATCHING} and pid is distinct from %s
"""  # noqa: S608  # our own query within our own
EXTENSION = "select from pg_extension where extname = 'pgq'"


@click.group(cls=Noun)
def ticker() -> None:
    """Run the daemon that ticks, retries and rotates, or show its status."""


@ticker.command("run")
@click.option("--dsn", "dsns", multiple=True, metavar="DSN", help="A database; may be repeated.")
@click.option("--poll-interval", type=float, help="Seconds between polls while events come in.")
@click.option("--tick-interval", type=float, help="Seconds from a tick to the next poll.")
@click.option("--idle-poll-interval", type=float, help="Seconds between polls while idle.")
@click.option("--retry-period", type=float, help="Seconds between moves of due retries.")
@click.option("--maint-period", type=float, help="Seconds between rotations.")
@click.option("--due-period", type=float, help="Seconds between checks of idle queues.")
@click.option("--gauge-period", type=float, help="Seconds between readings of lag for /metrics.")
@click.option("--health-limit", type=float, help="Seconds without a poll before /healthz fails.")
@click.option("--cron/--no-cron", default=None, help="Whether cron entries fire.  [default: yes]")
@click.option("--http-host", help="Address of /healthz and /metrics.  [default: 127.0.0.1]")
@click.option("--http-port", type=int, help="Port of both.  [default: none]")
@click.option("--log-format", type=click.Choice(["console", "json"]))
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@pass_target
def run(target: Target, /, dsns: tuple[str, ...], **options: Any) -> int:
    """Tick, retry and maintain the queues of one or more databases, until SIGTERM or Ctrl-C.

    A second daemon stands by and takes over. Each option is also a variable, such as
    PGQPY_HTTP_PORT.

    Example: pgqpy ticker run --dsn postgresql://localhost/shop --http-port 9187
    """
    from pgqpy.ticker import run as run_ticker
    from pgqpy.ticker.settings import TickerSettings

    set_options = {name: value for name, value in options.items() if value is not None}
    return run_ticker(TickerSettings(**set_options, **_databases(target, dsns)))


@ticker.command("status")
@click.option("--dsn", "dsns", multiple=True, metavar="DSN", help="A database; may be repeated.")
@json_option
@pass_target
def status(target: Target, /, dsns: tuple[str, ...], *, as_json: bool) -> int:
    """Show the ticker of each database, and whether every queue gets its ticks.

    Exit code 1 if a queue is late, is left out or has no ticker, or a database does not answer.
    The column since is visible to the ticker's own role and to pg_read_all_stats.

    Example: pgqpy ticker status --dsn postgresql://localhost/shop
    """
    from pgqpy.ticker.settings import TickerSettings

    settings = TickerSettings(**_databases(target, dsns))
    return 0 if _show_status(settings.databases, as_json=as_json) else 1


def _databases(target: Target, dsns: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings that name the databases; none if no option names one."""
    if dsns:
        return {"dsns": dsns}
    return {"dsn": target.dsn} if target.dsn else {}


def _show_status(dsns: Iterable[str], *, as_json: bool) -> bool:
    """Print a row for each queue of each database; return whether all are healthy."""
    rows = [row for dsn in dsns for row in _database(dsn)]
    for row in rows:
        if row["error"]:
            say(f"error: {row['database']}: {row['error']}")
    show_rows(rows, COLUMNS, as_json=as_json)
    return all(row["state"] in HEALTHY for row in rows)


def _database(dsn: str) -> Iterator[Row]:
    """Yield a row for each queue; a row without one if there is none or on an error."""
    from pgqpy.ticker.session import label

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
    from pgqpy.watch.snapshot import SKIPPED, tick_state

    infos = client.get_queue_info()
    run = client.connection.execute
    cursor = client.connection.cursor()
    found = cursor.execute(locks.OWNER, [locks.ENGINE, locks.TICKING]).fetchone()
    holder = locks.LockOwner(*found) if found else None
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
