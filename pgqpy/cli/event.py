"""``pgqpy event``: insert, load and inspect events; manage dead and parked events."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from pgqpy.cli import complete
from pgqpy.cli.dead_events import COMMANDS
from pgqpy.cli.event_load import load_events
from pgqpy.cli.event_peek import following, newest, oldest
from pgqpy.cli.options import Target, connected, json_option
from pgqpy.cli.output import as_text, show_json_line, show_line, show_rows
from pgqpy.cli.parked_events import parked

if TYPE_CHECKING:
    from typing import BinaryIO

    from pgqpy import Event

EVENTS = {"id": "id", "time": "time", "type": "type", "data": "data"}

limit_option = click.option(
    "--limit",
    type=click.IntRange(min=0, max=1_000_000),
    default=10,
    show_default=True,
    help="Show at most this many.",
)


@click.group()
def event() -> None:
    """Insert, load or inspect events; manage dead and parked events."""


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("type_", metavar="TYPE")
@click.argument("data", required=False)
@click.option("--extra1", help="Free for the application.")
@click.option("--extra2", help="As extra1.")
@click.option("--extra3", help="As extra1.")
@click.option("--extra4", help="As extra1.")
@connected
def insert(target: Target, queue: str, type_: str, data: str | None, **extras: str | None) -> None:
    """Insert one event and print its id.

    DATA is the payload as text. - reads it from stdin; without DATA the payload is null.

    Example: pgqpy event insert orders placed '{"id": 17}'
    """
    payload = sys.stdin.buffer.read() if data == "-" else data
    with target.client() as client:
        event_id = client.insert_event(queue, type_, payload, **extras)
    click.echo(event_id)


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("file", type=click.File("rb"), default="-")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv"]),
    help="Format of FILE.  [default: by its extension, else jsonl]",
)
@click.option("--type", "default_type", help="Type of the events without one.")
@connected
def load(
    target: Target, queue: str, file: BinaryIO, form: str | None, default_type: str | None
) -> None:
    """Load events from FILE (- is stdin) in one transaction, by COPY; print their number.

    jsonl: one object per line, with the fields type, data and extra1 to extra4. Data other than a
    string is stored as JSON. csv: a header with these names, then rows; an empty field is null.
    If a line is wrong, the error names its number and nothing is loaded.

    Example: echo '{"type": "placed", "data": {"id": 17}}' | pgqpy event load orders
    """
    chosen = form or ("csv" if str(getattr(file, "name", "")).endswith(".csv") else "jsonl")
    with target.client() as client:
        count = load_events(client, queue, file, form=chosen, default_type=default_type)
    click.echo(count)


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@limit_option
@json_option
@connected
def peek(target: Target, queue: str, *, limit: int, as_json: bool) -> None:
    """Show the oldest events of a queue, without consuming them.

    An event is shown once a later tick exists. Retried copies are left out.

    Example: pgqpy event peek orders --limit 3
    """
    with target.client() as client:
        rows = [found._asdict() for found in oldest(client, queue, limit)]
    show_rows(rows, EVENTS, as_json=as_json)


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.option("-f", "--follow", is_flag=True, help="Show new events too, until Ctrl-C.")
@limit_option
@json_option
@connected
def tail(target: Target, queue: str, *, follow: bool, limit: int, as_json: bool) -> None:
    """Show the newest events of a queue, one per line, without consuming them.

    An event is shown once a later tick exists. Retried copies are left out. With --json each line
    is a JSON object.

    Example: pgqpy event tail orders -f
    """

    def show(found: Event) -> None:
        row = found._asdict()
        if as_json:
            show_json_line(row)
        else:
            show_line([as_text(row[field]) for field in EVENTS.values()])

    with target.client() as client:
        found, last = newest(client, queue, limit)
        for each in found:
            show(each)
        with suppress(KeyboardInterrupt):  # the regular end of --follow
            for each in following(client, queue, last, found) if follow else ():
                show(each)


for command in (*COMMANDS, parked):
    event.add_command(command)
