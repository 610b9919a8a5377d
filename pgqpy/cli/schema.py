"""``pgqpy schema``: install, upgrade, inspect and remove the schema pgq; repair queues."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import psycopg

from pgqpy import Client, DatabaseRestored, PgqError, calls
from pgqpy import install as installer
from pgqpy.cli import complete, queries
from pgqpy.cli.failures import explain
from pgqpy.cli.options import Noun, Target, connected, json_option
from pgqpy.cli.output import say, show_row
from pgqpy.doctor import examine_roles
from pgqpy.manifest import print_sql
from pgqpy.texts import escaped

if TYPE_CHECKING:
    from pgqpy.records import QueueInfo


@click.group(cls=Noun)
def schema() -> None:
    """Install, upgrade, inspect or remove the engine, which is the schema pgq."""


@schema.command()
@connected
def install(target: Target) -> None:
    """Install the schema pgq, or upgrade it to the version of this pgqpy.

    The owner of the database may do this, without superuser rights. It may be repeated, and is one
    transaction. Queues, events and positions stay; there is no downgrade.

    Example: pgqpy --dsn postgresql://localhost/shop schema install
    """
    with target.client(any_owner=True, waits=True) as client:
        before = installer.status(client.connection).installed
        version = installer.install(client.connection)
        warnings = list(examine_roles(client.connection))
    came = "" if before in (None, version) else f", from version {before}"
    say(f"schema pgq is at version {version}{came}")
    for found in warnings:
        say(escaped(f"warning: {found.what}; {found.remedy}"))


@schema.command()
@json_option
@connected
def status(target: Target, *, as_json: bool) -> int:
    """Show the installed version and the version of this pgqpy.

    Exit code 1 unless both are the same.

    Example: pgqpy schema status --json
    """
    with target.client(any_owner=True) as client:
        found = installer.status(client.connection)
    row = {**asdict(found), "state": found.state}
    del row["untrusted"]  # a sentence, for stderr
    show_row(row, as_json=as_json)
    if found.untrusted is not None:
        say(str(found.untrusted))
    elif found.problem is not None:
        say("; ".join(found.problem))
    elif found.extension is not None:
        say("the extension pgq is installed: pgqpy's client works with it")
    return 0 if found.state == "current" else 1


@schema.command("print")
def print_() -> None:
    """Print the whole schema as one file for psql.

    Example: pgqpy schema print | psql postgresql://localhost/shop
    """
    click.echo(print_sql(), nl=False)


@schema.command()
@click.option("--force", is_flag=True, help="Drop queues and their events too.")
@click.option("--roles", is_flag=True, help="Also drop the six pgq_ roles if they are unused.")
@connected
def uninstall(target: Target, *, force: bool, roles: bool) -> None:
    """Drop the schema pgq with everything in it.

    Example: pgqpy schema uninstall --force --roles
    """
    with target.client(any_owner=True, waits=True) as client:
        gone = installer.uninstall(client.connection, force=force, roles=roles)
    say(f"dropped the schema pgq with {gone.queues} queue(s)")
    if gone.dropped_roles:
        say(f"dropped the roles {', '.join(gone.dropped_roles)}")
    if gone.kept_roles:
        why = "they are still used, or not yours to drop" if roles else "--roles drops unused ones"
        say(f"the roles {', '.join(gone.kept_roles)} stay: {why}")


@schema.command()
@click.argument("queues", nargs=-1, shell_complete=complete.queues)
@connected
def repair(target: Target, queues: tuple[str, ...]) -> int:
    """Repair queues after a restore into a cluster with smaller transaction ids.

    Such queues refuse to tick (error PQ012). Without QUEUES, all of them are repaired, also those
    that are paused or have an external ticker.

    Example: pgqpy schema repair
    """
    with target.client() as client:
        client.connection.add_notice_handler(_print_warning)
        chosen = [queries.queue_info(client, name) for name in queues]
        chosen = chosen or client.get_queue_info()
        refuses = {info.queue_name: _refuses_to_tick(client, info) for info in chosen}
        repaired = [_repair_queue(client, name) for name, refused in refuses.items() if refused]
    failed = None in refuses.values()
    if not repaired and not failed:
        say("no queue needs a repair")
    return 1 if failed or not all(repaired) else 0


def _print_warning(notice: psycopg.errors.Diagnostic) -> None:
    """Print a warning of the server, such as ids that may be there twice."""
    if notice.severity_nonlocalized == "WARNING":
        say(f"warning: {notice.message_primary}")
        if notice.message_detail:
            say(notice.message_detail)


def _refuses_to_tick(client: Client, info: QueueInfo) -> bool | None:
    """Say whether a tick of the queue fails with PQ012. The trial tick is rolled back.

    None: it fails with another error, which this function prints.
    """
    name = info.queue_name
    try:
        with client.transaction():
            if info.queue_ticker_paused:
                client.set_queue_config(name, "ticker_paused", "false")
            if info.queue_external_ticker:
                last = client.call(calls.ticks.get_tick_info(name, info.last_tick_id))[-1]
                client.ticker(name, last.tick_id + 1, last.tick_time, last.tick_event_seq)
            else:
                client.tick_queue(name)
            raise psycopg.Rollback
    except DatabaseRestored:
        return True
    except (PgqError, psycopg.Error) as exc:
        if client.connection.closed:
            raise
        say(f"error: queue {name} cannot be ticked: {explain(exc)}")
        return None
    return False


def _repair_queue(client: Client, name: str) -> bool:
    """Repair one queue; say whether that succeeded. A failure does not stop the others."""
    try:
        kept = client.call(calls.admin.repair_queue(name))
    except (PgqError, psycopg.Error) as exc:
        if client.connection.closed:
            raise
        say(f"error: queue {name} is not repaired: {explain(exc)}")
        return False
    say(f"repaired queue {name}: {kept} event(s) kept")
    return True
