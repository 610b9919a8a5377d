"""``pgqpy cron``: add, list, pause and remove cron entries."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from pgqpy import calls
from pgqpy.cli import complete
from pgqpy.cli.options import Noun, Target, connected, json_option
from pgqpy.cli.output import as_text, say, show_rows
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy.calls.cron import Missed
    from pgqpy.records import CronEntry

LIST = {
    "name": "name",
    "queue": "queue",
    "type": "type",
    "schedule": "schedule",
    "time zone": "timezone",
    "missed": "missed",
    "next due": "next_due",
    "last due": "last_due",
    "paused since": "paused_since",
}

PAUSED = {"paused=true": True, "paused=false": False}

name_argument = click.argument("name", shell_complete=complete.cron_entries)


@click.group(cls=Noun)
def cron() -> None:
    """Insert events by the clock: add, list, pause or remove cron entries."""


@cron.command()
@click.argument("name")
@click.argument("queue", shell_complete=complete.queues)
@click.argument("type_", metavar="TYPE")
@click.option("--schedule", required=True, help="Five fields as in crontab, or @hourly, @daily, …")
@click.option("--timezone", default="UTC", show_default=True, help="Such as Europe/Berlin.")
@click.option("--data", help="The payload as text; - reads it from stdin.  [default: null]")
@click.option("--extra1", help="Free for the application.")
@click.option("--extra2", help="As extra1.")
@click.option("--extra3", help="As extra1.")
@click.option("--extra4", help="As extra1.")
@click.option(
    "--missed",
    type=click.Choice(["one", "all", "skip"]),
    default="one",
    show_default=True,
    help="What to do about times at which no ticker ran: one event for the last, all, or none.",
)
@connected
def add(
    target: Target,
    name: str,
    queue: str,
    type_: str,
    *,
    data: str | None,
    schedule: str,
    timezone: str,
    missed: Missed,
    **extras: Any,
) -> None:
    """Have the ticker insert an event of TYPE at each time of a schedule.

    An entry of this name is changed. It stays paused if it is, and keeps its next time if the
    schedule and the time zone stay the same.

    Example: pgqpy cron add report reports build --schedule "0 7 * * 1-5" --timezone Europe/Berlin
    """
    payload = sys.stdin.buffer.read() if data == "-" else data
    with target.client() as client:
        added = client.add_cron(
            name,
            queue,
            type_,
            payload,
            **extras,
            schedule=schedule,
            timezone=timezone,
            missed=missed,
        )
        (entry,) = client.get_cron_info(name)
    what = "added" if added else "changed"
    when = "paused" if entry.paused_since else f"next due {as_text(_next_due(entry))}"
    say(f"{what} cron entry {name}: {when}")


def _next_due(entry: CronEntry) -> datetime:
    """Return when an entry will be due, also before the ticker has planned it."""
    from pgqpy.schedule import find_zone, schedule

    times = schedule(entry.schedule, entry.timezone)
    due = entry.next_due or times.next_after(entry.planned_at)
    return due.astimezone(find_zone(entry.timezone))


@cron.command("list")
@json_option
@connected
def list_(target: Target, *, as_json: bool) -> None:
    """List the cron entries, with times in the zone of each.

    Example: pgqpy cron list --json
    """
    with target.client() as client:
        rows = [_row(entry) for entry in client.get_cron_info()]
    show_rows(rows, LIST, as_json=as_json)


def _row(entry: CronEntry) -> dict[str, Any]:
    from pgqpy.schedule import find_zone

    row = entry._asdict()
    with suppress(InvalidArgument):  # of an entry that was not added by a client
        row["next_due"] = _next_due(entry)
        row["last_due"] = entry.last_due and entry.last_due.astimezone(find_zone(entry.timezone))
    return row


@cron.command()
@name_argument
@connected
def remove(target: Target, name: str) -> None:
    """Remove a cron entry. The events that it inserted stay.

    Example: pgqpy cron remove report
    """
    with target.client() as client:
        client.remove_cron(name)
    say(f"removed cron entry {name}")


@cron.command("set")
@name_argument
@click.argument("setting", metavar="paused=true|false", type=click.Choice(list(PAUSED)))
@connected
def set_(target: Target, name: str, setting: str) -> None:
    """Stop a cron entry, or let it go on. The times in the pause are not made up for.

    pgqpy cron add changes all else.

    Example: pgqpy cron set report paused=true
    """
    paused = PAUSED[setting]
    with target.client() as client:
        change = calls.cron.pause_cron if paused else calls.cron.resume_cron
        done = client.call(change(name))
    state = "paused" if paused else "not paused"
    say(f"cron entry {name} is {state}{'' if done else ' already: nothing changed'}")


@cron.command()
@name_argument
@connected
def run(target: Target, name: str) -> None:
    """Insert the event of a cron entry now, paused or not, and print its id.

    Example: pgqpy cron run report
    """
    with target.client() as client:
        click.echo(client.call(calls.cron.run_cron(name)))
