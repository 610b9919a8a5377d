"""``pgqpy consumer set-policy`` and ``reattach``: consumers that are too far behind."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from psycopg.errors import UndefinedTable
from psycopg.rows import dict_row

from pgqpy import calls
from pgqpy.cli import complete, queries
from pgqpy.cli.moments import parse_timedelta
from pgqpy.cli.options import Target, connected
from pgqpy.errors import RangeExpired
from pgqpy.texts import duration

if TYPE_CHECKING:
    from datetime import timedelta

    from pgqpy import Client
    from pgqpy.calls.stalled import Policy

UNITS = {"": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
SIZE = re.compile(r"(\d{1,6}(?:\.\d+)?|\d+) ?(|kB|MB|GB|TB)", re.ASCII)
LARGEST = 1 << 62  # bytes
# PGQ's extension has no such table.
POLICY = """
    select r.sub_stalls as stall_policy, r.sub_stall_after as stall_after,
        r.sub_stall_bytes as stall_bytes, r.sub_detached as detached
    from pgq.registration r
    join pgq.queue q on q.queue_id = r.sub_queue
    join pgq.consumer c on c.co_id = r.sub_consumer
    where q.queue_name = %s and c.co_name = %s
"""


def parse_size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Return a number of bytes."""
    if value is None:
        return None
    found = SIZE.fullmatch(value.strip())
    size = float(found[1]) * UNITS[found[2]] if found else LARGEST
    if size < LARGEST:
        return int(size)
    raise click.BadParameter(f"{value!r} is no size: write 500MB, 20GB, 1.5TB")


def policy_details(client: Client, queue: str, name: str) -> dict[str, Any]:
    """Return a consumer's policy, and since when it is detached; nothing on PGQ's extension."""
    with suppress(UndefinedTable), client.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(POLICY, [queue, name]).fetchone() or {}
    return {}


def policy_as_text(policy: str, after: timedelta | None, size: int | None) -> str:
    """Describe a policy with its limits."""
    limits = [f"after {duration(after)}"] if after is not None else []
    limits += [f"from {size} bytes on"] if size is not None else []
    return f"{policy} {' or '.join(limits)}" if limits else policy


@click.command("set-policy")
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.argument("policy", type=click.Choice(["warn", "detach"]))
@click.option(
    "--after", metavar="TIME", callback=parse_timedelta, help="Behind for so long, such as 2d."
)
@click.option(
    "--size", metavar="SIZE", callback=parse_size, help="Tables of the queue so large, as 50GB."
)
@connected
def set_policy(
    target: Target,
    queue: str,
    name: str,
    policy: Policy,
    *,
    after: timedelta | None,
    size: int | None,
) -> None:
    """Decide what happens when rotation waits for a consumer: the tables grow meanwhile.

    warn, as at the beginning: the ticker's log, pgqpy doctor and /metrics name it. detach, after a
    time or a size, whichever comes first: rotation stops waiting. The consumer gets no events then,
    and events that it has not had are removed. Its retried, dead and parked events stay. Only time
    in which a ticker ran counts.

    Example: pgqpy consumer set-policy orders reports detach --after 2d --size 50GB
    """
    if policy == "detach" and after is None and size is None:
        raise click.UsageError("detach needs --after or --size")
    with target.client() as client:
        queries.consumer_info(client, queue, name)
        changed = client.call(
            calls.stalled.set_stall_policy(queue, name, policy, after=after, size=size)
        )
    text = policy_as_text(policy, after, size)
    click.echo(f"{name} on {queue}: {text}{'' if changed else ' already'}", err=True)


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.option(
    "--from-earliest", is_flag=True, help="If events are gone, go on from the earliest tick left."
)
@connected
def reattach(target: Target, queue: str, name: str, *, from_earliest: bool) -> None:
    """Attach a detached consumer again: it goes on where it was.

    If events after its position are gone, the error says which tick is the earliest one left. With
    --from-earliest the consumer goes on from there: with lanes or workers, some events come again.

    Example: pgqpy consumer reattach orders reports
    """
    with target.client() as client:
        queries.consumer_info(client, queue, name)
        try:
            done = client.call(
                calls.stalled.reattach_consumer(queue, name, from_earliest=from_earliest)
            )
        except RangeExpired as exc:
            raise click.ClickException(str(exc)) from exc
        pending = queries.consumer_info(client, queue, name).pending_events
    if not done:
        click.echo(f"{name} on {queue} is attached already", err=True)
        return
    click.echo(f"reattached {name} on {queue}: about {pending} event(s) wait", err=True)
