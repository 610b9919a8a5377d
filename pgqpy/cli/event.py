"""``pgqpy event``: insert, load, inspect and cancel events; manage those that wait or are dead."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from pgqpy.browse import Wanted, newest, oldest
from pgqpy.cli import complete, queries
from pgqpy.cli.cancel import cancel, skip
from pgqpy.cli.dead_events import COMMANDS
from pgqpy.cli.delayed_events import delayed
from pgqpy.cli.event_follow import Following
from pgqpy.cli.event_load import load_events
from pgqpy.cli.moments import parse_moment, parse_time, parse_timedelta, to_time
from pgqpy.cli.options import Target, connected, json_option, limit_option
from pgqpy.cli.output import as_text, say, show_json_line, show_line, show_rows
from pgqpy.cli.parked_events import parked

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from typing import BinaryIO

    from pgqpy import Event
    from pgqpy.cli.moments import Moment
    from pgqpy.cli.options import Command

EVENTS = {"id": "id", "time": "time", "type": "type", "data": "data"}

EXTRAS = ("extra1", "extra2", "extra3", "extra4")


def filtered(command: Command) -> Command:
    """Give a command the options --type and --extra1 to --extra4, as one `wanted`."""

    @wraps(command)
    def with_wanted(*args: Any, types: tuple[str, ...], **options: Any) -> Any:
        values = {name: options.pop(name) for name in EXTRAS}
        extras = {name: [value] for name, value in values.items() if value is not None}
        return command(*args, wanted=Wanted(types, extras), **options)

    for name in reversed(EXTRAS):
        with_wanted = click.option(f"--{name}", metavar="VALUE", help="Its value is this.")(
            with_wanted
        )
    what = "It is of this type, or has this prefix, such as 'order.*'; may be repeated."
    return click.option("--type", "types", multiple=True, metavar="TYPE", help=what)(with_wanted)  # type: ignore[return-value]  # click adds options only


@click.group()
def event() -> None:
    """Insert, load, inspect or cancel events; manage those that wait or are dead."""


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("type_", metavar="TYPE")
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
@connected
def insert(
    target: Target,
    queue: str,
    type_: str,
    data: str | None,
    delay: timedelta | None,
    deliver_at: datetime | None,
    dedup_key: str | None,
    dedup_for: timedelta | None,
    **extras: Any,
) -> None:
    """Insert one event and print its id.

    DATA is the payload as text. - reads it from stdin; without DATA the payload is null. With a key
    that is taken, nothing is inserted, and the id is that of the event that took it. With a delay
    or a time, consumers get the event then: pgqpy event delayed lists those that wait.

    Example: pgqpy event insert orders placed '{"id": 17}'
    """
    if (dedup_key is None) != (dedup_for is None):
        raise click.UsageError("--dedup-key and --dedup-for belong together")
    if delay is not None and deliver_at is not None:
        raise click.UsageError("--delay and --at exclude each other")
    more: dict[str, Any] = {"delay": delay, "deliver_at": deliver_at, **extras}
    payload = sys.stdin.buffer.read() if data == "-" else data
    with target.client() as client:
        if dedup_key is None or dedup_for is None:
            click.echo(client.insert_event(queue, type_, payload, **more))
            return
        once = client.insert_event_once(
            queue, type_, payload, **more, dedup_key=dedup_key, dedup_for=dedup_for
        )
    click.echo(once.id)
    if not once.is_new:
        click.echo(f"key {dedup_key} is taken by this event: nothing was inserted", err=True)


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
@click.option("--since", callback=parse_moment, metavar="TIME", help="Its time is this or later.")
@click.option("--until", callback=parse_moment, metavar="TIME", help="Its time is earlier.")
@click.option("--tick", "after", type=int, metavar="TICK", help="It came after this tick.")
@click.option("--archive", metavar="LOCATION", help="Read this archive of the queue first.")
@filtered
@limit_option(10)
@json_option
@connected
def peek(
    target: Target,
    queue: str,
    *,
    since: Moment | None,
    until: Moment | None,
    after: int | None,
    archive: str | None,
    wanted: Wanted,
    limit: int,
    as_json: bool,
) -> None:
    """Show the oldest events of a queue, without consuming them.

    TIME is 2026-01-31T14:00, 2026-01-31, or 90s, 30min, 2h, 7d for so long ago. An event is shown
    once a later tick exists. Retried copies are left out. With --archive, the events of an archive
    come first, then those of the queue from where the archive ends: each event once.

    Example: pgqpy event peek orders --since 2h --type 'order.*' --extra1 eu
    """
    with target.client() as client:
        now = queries.server_time(client)
        wanted = wanted._replace(since=to_time(since, now), until=to_time(until, now))
        if archive is None:
            found = oldest(client, queue, limit, wanted, after, expired=partial(_tell, queue))
        else:
            from pgqpy.cli import event_archive

            found = event_archive.oldest(client, queue, archive, limit, wanted, after)
        rows = [each._asdict() for each in found]
    show_rows(rows, EVENTS, as_json=as_json)
    if not rows and not as_json:
        say("no event found: one is shown once a later tick exists")


def _tell(queue: str, first: datetime) -> None:
    click.echo(f"queue {queue} keeps events from {as_text(first)} on", err=True)


@event.command()
@click.argument("queue", shell_complete=complete.queues)
@click.option("-f", "--follow", is_flag=True, help="Show new events too, until Ctrl-C.")
@filtered
@limit_option(10)
@json_option
@connected
def tail(
    target: Target, queue: str, *, follow: bool, wanted: Wanted, limit: int, as_json: bool
) -> None:
    """Show the newest events of a queue, one per line, without consuming them.

    An event is shown once a later tick exists. Retried copies are left out. With --json each line
    is a JSON object. -f shows each event once, and connects again after a lost connection.

    Example: pgqpy event tail orders -f
    """

    def show(found: Event) -> None:
        row = found._asdict()
        if as_json:
            show_json_line(row)
        else:
            show_line([as_text(row[field]) for field in EVENTS.values()])

    with suppress(KeyboardInterrupt) if follow else nullcontext():  # the regular end of --follow
        with target.client() as client:
            events, last = newest(client, queue, limit, wanted)
        for found in events:
            show(found)
        if follow:
            following = Following(queue, last, wanted)
            for found in following.over(partial(target.client, waits=True)):
                show(found)


for command in (*COMMANDS, delayed, parked, cancel, skip):
    event.add_command(command)
