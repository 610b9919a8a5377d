"""The commands of ``pgqpy event`` for dead events: dead, show, revive, delete."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pgqpy import calls
from pgqpy.cli import complete, queries
from pgqpy.cli.moments import parse_moment, to_time
from pgqpy.cli.options import Target, connected, json_option, limit_option
from pgqpy.cli.output import show_row, show_rows
from pgqpy.texts import escaped

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pgqpy.calls.dead_events import Filters

    Command = TypeVar("Command", bound=Callable[..., Any])
    Change = Callable[..., list[int]]

CHUNK = 10_000  # dead events that one transaction revives or deletes
PROGRESS_INTERVAL = 2.0  # seconds
COLUMNS = {
    "event": "ev_id",
    "died": "dead_time",
    "tries": "dead_tries",
    "error": "dead_error",
    "reason": "dead_reason",
    "type": "ev_type",
    "data": "ev_data",
}
GROUPS = {
    "type": "ev_type",
    "error": "dead_error",
    "events": "dead_events",
    "last died": "last_dead_time",
}


def filter_options(command: Command) -> Command:
    """Add QUEUE, CONSUMER and the options that choose dead events."""
    for decorate in (
        click.option(
            "--until",
            metavar="TIME",
            callback=parse_moment,
            help="Died before this time: 2026-01-31T14:00, or 2h for 2 hours ago.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            callback=parse_moment,
            help="Died at this time or later, written as for --until.",
        ),
        click.option("--error", metavar="CLASS", help="Died of this exception; '': of none."),
        click.option("--type", metavar="TYPE", help="Events of this type; '': of none."),
        click.argument("consumer", shell_complete=complete.consumers),
        click.argument("queue", shell_complete=complete.queues),
    ):
        command = decorate(command)
    return command


def _filters(now: datetime, wanted: dict[str, Any]) -> Filters:
    since, until = (to_time(wanted[name], now) for name in ("since", "until"))
    return {"type": wanted["type"], "error": wanted["error"], "since": since, "until": until}


@click.command()
@filter_options
@limit_option(100)
@click.option("--group", is_flag=True, help="Count them by type and error instead.")
@json_option
@connected
def dead(
    target: Target,
    queue: str,
    consumer: str,
    *,
    limit: int,
    group: bool,
    as_json: bool,
    **wanted: Any,
) -> None:
    """List the dead events of a consumer, the newest event first.

    Example: pgqpy event dead orders billing --since 2h --error ValueError
    """
    with target.client() as client:
        queries.consumer_info(client, queue, consumer)
        filters = _filters(queries.server_time(client), wanted)
        filters["limit"] = limit if group else limit + 1
        if group:
            counts = client.call(
                calls.dead_events.get_dead_event_counts(queue, consumer, **filters)
            )
            show_rows([found._asdict() for found in counts], GROUPS, as_json=as_json)
            return
        events = client.get_dead_events(queue, consumer, **filters)
    show_rows([found._asdict() for found in events[:limit]], COLUMNS, as_json=as_json)
    if len(events) > limit:
        click.echo(f"only the newest {limit}: --limit shows more, --group counts all", err=True)


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("consumer", shell_complete=complete.consumers)
@click.argument("event_id", type=int)
@json_option
@connected
def show(target: Target, queue: str, consumer: str, event_id: int, *, as_json: bool) -> None:
    """Show one dead event, with its data and the traceback.

    Example: pgqpy event show orders billing 1042
    """
    with target.client() as client:
        queries.consumer_info(client, queue, consumer)
        found = client.get_dead_events(queue, consumer, [event_id])
    if not found:
        text = f"event {event_id} is no dead event of consumer {consumer} on queue {queue}"
        raise click.ClickException(f"{text}: pgqpy event dead lists them")
    row = found[0]._asdict()
    if as_json:
        show_row(row, as_json=True)
        return
    traceback = row.pop("dead_traceback")
    show_row(row, as_json=False)
    if traceback is not None:
        click.echo(escaped(traceback, "\n"))


def change_command(name: str, done: str, help: str) -> click.Command:
    """Return the command that revives or deletes dead events."""

    @filter_options
    @click.argument("event_ids", nargs=-1, type=int)
    @click.option("--all", "everything", is_flag=True, help="All dead events of this consumer.")
    @click.option("--limit", type=click.IntRange(min=1), help="At most this many, the oldest.")
    @connected
    def run(
        target: Target,
        queue: str,
        consumer: str,
        event_ids: tuple[int, ...],
        *,
        everything: bool,
        limit: int | None,
        **wanted: Any,
    ) -> None:
        filtered = any(value is not None for value in wanted.values())
        if [bool(event_ids), filtered, everything].count(True) != 1:
            text = "name event ids, or filters such as --type, or --all for all of them"
            raise click.UsageError(text)
        with target.client() as client:
            queries.consumer_info(client, queue, consumer)
            change: Change = getattr(client, f"{name}_dead_events")
            if event_ids:
                click.echo(len(change(queue, consumer, event_ids, limit=limit)))
                return
            now = queries.server_time(client)
            filters = _filters(now, wanted)
            # Not those that die meanwhile: a revived event may be dead again at once.
            filters["until"] = min(now, filters.get("until") or now)
            click.echo(_in_transactions(change, done, queue, consumer, limit, filters))

    return click.command(name, help=help)(run)


def _in_transactions(
    change: Change, done: str, queue: str, consumer: str, limit: int | None, filters: Filters
) -> int:
    """Revive or delete dead events, in transactions of CHUNK events; return their number."""
    count, after, said = 0, None, time.monotonic()
    try:
        while limit is None or count < limit:
            wanted = CHUNK if limit is None else min(CHUNK, limit - count)
            ids = change(queue, consumer, after=after, **{**filters, "limit": wanted})
            count += len(ids)
            if len(ids) < wanted:
                break
            after = ids[-1]
            if time.monotonic() - said >= PROGRESS_INTERVAL:
                click.echo(f"{done} {count} dead event(s) so far", err=True)
                said = time.monotonic()
    except BaseException:
        if count:
            click.echo(f"{done} {count} dead event(s) before it ended", err=True)
        raise
    return count


revive = change_command(
    "revive",
    "revived",
    """Move dead events to the consumer's retry queue; print their number.

    Name event ids, or filters, or --all. Many are revived in transactions of 10,000.

    Example: pgqpy event revive orders billing 1042 1043
    """,
)
delete = change_command(
    "delete",
    "deleted",
    """Delete dead events; print their number.

    Name event ids, or filters, or --all. Many are deleted in transactions of 10,000.

    Example: pgqpy event delete orders billing --error ValueError --until 7d
    """,
)
COMMANDS = (dead, show, revive, delete)
