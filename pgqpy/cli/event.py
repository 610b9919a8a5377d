"""``pgqpy event``: insert, list and cancel events; manage those that wait or are dead."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from pgqpy.cli import complete, queries
from pgqpy.cli.event_list import list_
from pgqpy.cli.event_load import load_events
from pgqpy.cli.event_waiting import delete, retry, show
from pgqpy.cli.options import (
    Noun,
    Target,
    connected,
    given_options,
    json_option,
    parse_time,
    parse_timedelta,
)
from pgqpy.cli.output import say, show_rows

if TYPE_CHECKING:
    from typing import BinaryIO

STATES = {"event": "id", "consumer": "consumer", "state": "state"}
OF_ONE_EVENT = (
    "data", "extra1", "extra2", "extra3", "extra4", "delay", "deliver_at", "dedup_key", "dedup_for"
)  # fmt: skip


@click.group(cls=Noun)
def event() -> None:
    """Insert, list or cancel events; manage those that wait or are dead."""


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("type_", metavar="TYPE", required=False)
@click.argument("data", required=False)
@click.option("--extra1", help="Free for the application.")
@click.option("--extra2", help="As extra1.")
@click.option("--extra3", help="As extra1.")
@click.option("--extra4", help="As extra1.")
@click.option(
    "--delay", metavar="TIME", callback=parse_timedelta, help="Due after 90s, 30min, 2h or 7d."
)
@click.option(
    "--at", "deliver_at", metavar="TIME", callback=parse_time, help="Due at 2026-01-31T14:00."
)
@click.option("--dedup-key", metavar="KEY", help="Insert nothing while this key is taken.")
@click.option(
    "--dedup-for", metavar="TIME", callback=parse_timedelta, help="How long: 90s, 30min, 2h, 7d."
)
@click.option("--file", type=click.File("rb"), help="Insert all events of FILE; - is stdin.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv"]),
    help="Format of the file.  [default: by its extension, else jsonl]",
)
@connected
@click.pass_context
def insert(
    ctx: click.Context,
    /,
    target: Target,
    queue: str,
    type_: str | None,
    file: BinaryIO | None,
    form: str | None,
    **fields: Any,
) -> None:
    """Insert one event and print its id, or all events of a file and print their number.

    DATA is the payload as text. - reads it from stdin; without DATA the payload is null. With a key
    that is taken, nothing is inserted, and the id is that of the event that took it. With a delay
    or a time, consumers get the event then: pgqpy event list QUEUE delayed shows those that wait.

    A file goes into the queue in one transaction, by COPY; TYPE is for its events without one.
    jsonl: one object per line, with the fields type, data and extra1 to extra4. Data other than a
    string is stored as JSON. csv: a header with these names, then rows; an empty field is null.
    If a line is wrong, the error names its number and nothing is inserted.

    Example: pgqpy event insert orders placed '{"id": 17}'
    """
    given = given_options(ctx)
    if file is not None:
        for name in OF_ONE_EVENT:
            if name in given:
                raise click.UsageError(f"{given[name]} is for one event, not for --file")
        chosen = form or ("csv" if str(getattr(file, "name", "")).endswith(".csv") else "jsonl")
        with target.client() as client:
            click.echo(load_events(client, queue, file, form=chosen, default_type=type_))
        return
    if type_ is None:
        raise click.UsageError("Missing argument 'TYPE', or --file")
    if form is not None:
        raise click.UsageError("--format is for --file")
    _insert_one(target, queue, type_, **fields)


def _insert_one(
    target: Target,
    queue: str,
    type_: str,
    *,
    data: str | None,
    dedup_key: str | None,
    dedup_for: Any,
    **more: Any,
) -> None:
    if (dedup_key is None) != (dedup_for is None):
        raise click.UsageError("--dedup-key and --dedup-for belong together")
    if more["delay"] is not None and more["deliver_at"] is not None:
        raise click.UsageError("--delay and --at exclude each other")
    payload = sys.stdin.buffer.read() if data == "-" else data
    with target.client() as client:
        if dedup_key is None:
            click.echo(client.insert_event(queue, type_, payload, **more))
            return
        once = client.insert_event_once(
            queue, type_, payload, **more, dedup_key=dedup_key, dedup_for=dedup_for
        )
    click.echo(once.id)
    if not once.is_new:
        say(f"key {dedup_key} is taken by this event: nothing was inserted")


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("event_ids", metavar="ID...", nargs=-1, required=True, type=int)
@click.option("--consumer", shell_complete=complete.consumers, help="Hide them from this one only.")
@json_option
@connected
def cancel(
    target: Target, queue: str, event_ids: tuple[int, ...], *, consumer: str | None, as_json: bool
) -> None:
    """Hide events from all consumers that have not had them, or from one.

    Prints what happened for each consumer: cancelled: it does not get the event; delivered: it has
    had the event, or has it in its open batch; by ticks: it reads ranges of ticks, as Spark does,
    and gets the event; unknown: the queue has no such event for it.

    Example: pgqpy event cancel orders 1042 1043
    """
    with target.client() as client:
        if consumer is None:
            told = client.cancel_event(queue, event_ids)
        else:
            queries.consumer_info(client, queue, consumer)
            told = client.skip_event(queue, consumer, event_ids)
    show_rows([each._asdict() for each in told], STATES, as_json=as_json)


for command in (list_, show, retry, delete):
    event.add_command(command)
