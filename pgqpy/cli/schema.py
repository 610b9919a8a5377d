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
from pgqpy.cli.options import Target, connected, json_option
from pgqpy.cli.output import say, show_row
from pgqpy.doctor import examine_roles
from pgqpy.manifest import print_sql
from pgqpy.texts import escaped

if TYPE_CHECKING:
    from pgqpy.records import QueueInfo


@click.group()
def schema() -> None:
    """Install, upgrade, inspect or remove the engine, which is the schema pgq."""


@schema.command()
@connected
def install(target: Target) -> None:
    """Install the schema pgq, or upgrade it to the version of this pgqpy.

    The owner of the database may do this, without superuser rights. It may be repeated.

    Example: pgqpy --dsn postgresql://localhost/shop schema install
    """
    with target.client(any_owner=True, waits=True) as client:
        version = installer.install(client.connection)
        warnings = list(examine_roles(client.connection))
    click.echo(f"schema pgq is at version {version}", err=True)
    for found in warnings:
        say(escaped(f"warning: {found.what}; {found.remedy}"))


@schema.command()
@connected
def upgrade(target: Target) -> None:
    """Upgrade an installed schema to the version of this pgqpy.

    Queues, events and positions stay. The upgrade is one transaction; there is no downgrade.

    Example: pgqpy schema upgrade
    """
    with target.client(any_owner=True, waits=True) as client:
        before = installer.status(client.connection).installed
        version = installer.upgrade(client.connection)
    was = "was already" if before == version else f"went from {before} and is"
    click.echo(f"schema pgq {was} at version {version}", err=True)


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
        click.echo(str(found.untrusted), err=True)
    elif found.problem is not None:
        click.echo("; ".join(found.problem), err=True)
    elif found.extension is not None:
        click.echo("the extension pgq is installed: pgqpy's client works with it", err=True)
    return 0 if found.state == "current" else 1


@schema.command("print")
def print_() -> None:
    """Print the whole schema as one file for psql.

    Example: pgqpy schema print | psql postgresql://localhost/shop
    """
    click.echo(print_sql(), nl=False)


@schema.command()
@click.option("--force", is_flag=True, help="Drop queues and their events too.")
@click.option("--roles", is_flag=True, help="Also drop the five pgq_ roles if they are unused.")
@connected
def uninstall(target: Target, *, force: bool, roles: bool) -> None:
    """Drop the schema pgq with everything in it.

    Example: pgqpy schema uninstall --force --roles
    """
    with target.client(any_owner=True, waits=True) as client:
        gone = installer.uninstall(client.connection, force=force, roles=roles)
    click.echo(f"dropped the schema pgq with {gone.queues} queue(s)", err=True)
    if gone.dropped_roles:
        click.echo(f"dropped the roles {', '.join(gone.dropped_roles)}", err=True)
    if gone.kept_roles:
        why = "they are still used, or not yours to drop" if roles else "--roles drops unused ones"
        click.echo(f"the roles {', '.join(gone.kept_roles)} stay: {why}", err=True)


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
        click.echo("no queue needs a repair", err=True)
    return 1 if failed or not all(repaired) else 0


def _print_warning(notice: psycopg.errors.Diagnostic) -> None:
    """Print a warning of the server: events of a copy that a repair cannot tell for certain."""
    if notice.severity_nonlocalized == "WARNING":
        click.echo(f"warning: {notice.message_primary}", err=True)


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
        click.echo(f"error: queue {name} cannot be ticked: {explain(exc)}", err=True)
        return None
    return False


def _repair_queue(client: Client, name: str) -> bool:
    """Repair one queue; say whether that succeeded. A failure does not stop the others."""
    try:
        kept = client.call(calls.admin.repair_queue(name))
    except (PgqError, psycopg.Error) as exc:
        if client.connection.closed:
            raise
        click.echo(f"error: queue {name} is not repaired: {explain(exc)}", err=True)
        return False
    click.echo(f"repaired queue {name}: {kept} event(s) kept", err=True)
    return True
