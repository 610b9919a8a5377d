"""``pgqpy queue``: create, configure, inspect and drop queues."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from pgqpy import calls
from pgqpy.calls.admin import QUEUE_SETTINGS
from pgqpy.cli import complete, queries
from pgqpy.cli.options import Noun, Target, connected, json_option, on_terminal, split_settings
from pgqpy.cli.output import say, show_row, show_rows
from pgqpy.errors import SchemaMissing

if TYPE_CHECKING:
    from pgqpy import Client

LIST = {
    "queue": "queue_name",
    "last tick": "last_tick_id",
    "tick age": "ticker_lag",
    "events/s": "ev_per_sec",
    "new": "ev_new",
    "rotation": "queue_rotation_period",
    "paused": "queue_ticker_paused",
}
CONSUMERS = {
    "consumer": "consumer_name",
    "lag": "lag",
    "last seen": "last_seen",
    "pending events": "pending_events",
}


EMPTY_IS_NONE = ("retention", "per_tx_limit", "extra_maint")


@click.group(cls=Noun)
def queue() -> None:
    """Create, configure, inspect or drop queues."""


@queue.command()
@click.argument("name")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting, as in queue set; may be repeated.",
    shell_complete=complete.settings,
)
@connected
def create(target: Target, name: str, settings: tuple[str, ...]) -> None:
    """Create a queue; leave an existing queue unchanged.

    Example: pgqpy queue create orders --set rotation_period='30 minutes'
    """
    pairs = _split(settings)
    with target.client() as client, client.transaction():
        created = client.create_queue(name)
        if created:
            _configure(client, name, pairs)
    exists = f"queue {name} exists already: nothing changed"
    say(f"created queue {name}" if created else exists)


@queue.command()
@click.argument("name", shell_complete=complete.queues)
@click.option("--force", is_flag=True, help="Do not ask, even if it has consumers or cron entries.")
@connected
def drop(target: Target, name: str, *, force: bool) -> None:
    """Drop a queue with all its events.

    If it has consumers or cron entries, a terminal asks; elsewhere --force is required.

    Example: pgqpy queue drop orders --force
    """
    with target.client() as client:
        if not force and on_terminal():
            force = _ask_to_drop(client, name)
        client.drop_queue(name, force=force)
    say(f"dropped queue {name}")


def _ask_to_drop(client: Client, name: str) -> bool:
    consumers = [info.consumer_name for info in queries.consumers(client, name)]
    entries: list[str] = []
    with suppress(SchemaMissing):  # PGQ's extension or an older schema
        entries = [entry.name for entry in client.get_cron_info() if entry.queue == name]
    if not consumers and not entries:
        return False
    users = [f"consumers ({', '.join(consumers)})"] if consumers else []
    users += [f"cron entries ({', '.join(entries)})"] if entries else []
    has = " and ".join(users)
    question = f"Queue {name} has {has}. Drop it with the events that were not read?"
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing was dropped")
    return True


@queue.command("list")
@json_option
@connected
def list_(target: Target, *, as_json: bool) -> None:
    """List the queues with their last tick and rate.

    Example: pgqpy queue list --json
    """
    with target.client() as client:
        rows = [info._asdict() for info in client.get_queue_info()]
    show_rows(rows, LIST, as_json=as_json)


@queue.command()
@click.argument("name", shell_complete=complete.queues)
@json_option
@connected
def show(target: Target, name: str, *, as_json: bool) -> None:
    """Show one queue: its settings, its ticks, its consumers.

    earliest_tick is the first place that a consumer can be moved to. delayed_events are not yet in
    the queue.

    Example: pgqpy queue show orders
    """
    from pgqpy.watch.snapshot import shown_lag

    with target.client() as client:
        row = queries.queue_details(client, name)
        consumers = [
            {**info._asdict(), "lag": shown_lag(info.lag, info.pending_events)}
            for info in queries.consumers(client, name)
        ]
    if as_json:
        show_row({**row, "consumers": consumers}, as_json=True)
    else:
        show_row(row, as_json=False)
        show_rows(consumers, CONSUMERS, as_json=False)


@queue.command("set")
@click.argument("name", shell_complete=complete.queues)
@click.argument(
    "settings",
    nargs=-1,
    required=True,
    metavar="NAME=VALUE...",
    shell_complete=complete.settings,
)
@connected
def set_(target: Target, name: str, settings: tuple[str, ...]) -> None:
    """Change settings of a queue, all in one transaction.

    Settings: ticker_max_count, ticker_max_lag, ticker_idle_period, ticker_paused, external_ticker,
    rotation_period, retention, disable_insert, per_tx_limit, ntables, extra_maint. A length of time
    is written 2h or '2 hours'. An empty retention, per_tx_limit or extra_maint means none.

    Example: pgqpy queue set orders ticker_max_lag='1 second' rotation_period='30 minutes'
    """
    pairs = _split(settings)
    with target.client() as client, client.transaction():
        _configure(client, name, pairs)
    say(f"configured queue {name}")


@queue.command()
@click.argument("name", shell_complete=complete.queues)
@click.argument("new_name")
@connected
def rename(target: Target, name: str, new_name: str) -> None:
    """Rename a queue; those that use the old name are told the new one.

    What belongs to the queue follows. The triggers of captured tables have its name, and are made
    anew.

    Example: pgqpy queue rename sales purchases
    """
    with target.client() as client, client.transaction():
        captured = client.call(calls.capture.get_captures(name))
        for each in captured:
            client.call(calls.capture.remove_capture(each.table))
        client.call(calls.admin.rename_queue(name, new_name))
        for each in captured:
            client.call(calls.capture.add_capture(new_name, each.table, always=each.always))
    say(f"queue {name} is now {new_name}")


def _split(settings: tuple[str, ...]) -> list[tuple[str, str]]:
    """Split the settings; refuse an empty value of one that always has a value."""
    pairs = split_settings(settings, "ticker_max_lag='1 s'")
    for name, value in pairs:
        if not value and name in QUEUE_SETTINGS and name not in EMPTY_IS_NONE:
            what = f"the setting {name} is empty: write {name}=VALUE"
            raise click.UsageError(f"{what}; only {', '.join(EMPTY_IS_NONE)} may be empty: none")
    return pairs


def _configure(client: Client, name: str, pairs: list[tuple[str, str]]) -> None:
    for parameter, value in pairs:
        client.set_queue_config(name, parameter, value)
