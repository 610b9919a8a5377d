"""``pgqpy consumer seek``: move a consumer to a tick or a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click
from psycopg.errors import LockNotAvailable

from pgqpy import calls
from pgqpy.browse import measure
from pgqpy.cli import complete, queries
from pgqpy.cli.options import Target, connected, on_terminal, parse_moment, to_time
from pgqpy.cli.output import as_text, say
from pgqpy.texts import duration

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy import Client
    from pgqpy.browse import Distance
    from pgqpy.cli.options import Moment
    from pgqpy.records import ConsumerInfo

    Place = Literal["beginning", "end"] | int | Moment
    Goal = Literal["beginning", "end"] | int | datetime

ENDS: dict[str, Literal["beginning", "end"]] = {"beginning": "beginning", "end": "end"}


def parse_place(ctx: click.Context, param: click.Parameter, value: str) -> Place | None:
    """Return beginning or end; a tick, if there are only digits; else a time."""
    if value in ENDS:
        return ENDS[value]
    if value.isascii() and value.isdecimal():
        return int(value)
    try:
        return parse_moment(ctx, param, value)
    except click.BadParameter as exc:
        text = f"{exc.message}; or beginning, end, or the number of a tick"
        raise click.BadParameter(text) from None


def _find_skipped(client: Client, info: ConsumerInfo, place: Goal) -> Distance | None:
    """Return the range that the seek skips; None if no events are in it."""
    queue = info.queue_name
    if place == "beginning":
        return None
    if place == "end":
        tick = queries.queue_info(client, queue).last_tick_id
    else:
        tick = (
            place if isinstance(place, int) else client.call(calls.ticks.get_tick_at(queue, place))
        )
    return None if tick is None else measure(client, queue, info.last_tick, tick)


def ask_to_skip(client: Client, info: ConsumerInfo, place: Goal) -> None:
    """Ask first, if a move skips events that the consumer has not finished."""
    queue, name = info[:2]
    found = _find_skipped(client, info, place)
    if found is None:
        return
    skips = (
        f"skips about {found.events} event(s) that consumer {name} of queue {queue} has not "
        f"finished: ticks {found.from_tick} to {found.to_tick}"
    )
    if found.to_time is not None and found.length is not None:
        skips += f", {duration(found.length)} up to {as_text(found.to_time)}"
    if not on_terminal():
        raise click.ClickException(f"this {skips}; add --yes to skip them")
    if not click.confirm(f"This {skips}. Skip them?", err=True):
        raise click.ClickException("the consumer was not moved")


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.argument("place", callback=parse_place)
@click.option("--discard", is_flag=True, help="Drop all its retried and parked events.")
@click.option("--yes", is_flag=True, help="Do not ask, even if events are skipped.")
@connected
def seek(target: Target, queue: str, name: str, place: Place, *, discard: bool, yes: bool) -> None:
    """Move a consumer to PLACE: events come again, or are skipped.

    PLACE is beginning, end, a time such as 2026-01-31T14:00, how long ago, such as 2h, or a number:
    that of a tick. From a time on, every event comes that was committed then or later, and some
    from shortly before. pgqpy queue show names the earliest place.

    A running consumer goes on there by itself. Events that come again have the same ids. Those of
    them that wait in the retry queue, or are parked, are dropped there, since they come anyway.
    --discard drops all that waits or is parked.

    If events are skipped that the consumer has not finished, a terminal asks; elsewhere --yes is
    required.

    Example: pgqpy consumer seek orders billing 2h
    """
    with target.client() as client:
        info = queries.consumer_info(client, queue, name)
        if not isinstance(place, (str, int)):
            place = to_time(place, queries.server_time(client))
        if not yes:
            ask_to_skip(client, info, place)
        try:
            found = client.seek_consumer(queue, name, place, discard=discard)
        except LockNotAvailable as exc:
            text = f"a transaction is at work for consumer {name} of queue {queue}: try it again"
            raise click.ClickException(text) from exc
        before = info.pending_events
        after = queries.consumer_info(client, queue, name).pending_events
    message = f"moved {name} on {queue} to tick {found.tick_id} of {as_text(found.tick_time)}"
    if before is not None and after is not None and before != after:
        does = "come again" if after > before else "are skipped"
        message += f": about {abs(after - before)} event(s) {does}"
    if found.dropped:
        message += f"; dropped {found.dropped} that waited or were parked"
    say(message)
