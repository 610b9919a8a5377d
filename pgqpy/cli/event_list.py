"""``pgqpy event list``: the events of a queue, or those that wait or are dead."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pgqpy.browse import Wanted, newest, oldest
from pgqpy.cli import complete, event_archive, event_waiting, queries
from pgqpy.cli.event_follow import Following
from pgqpy.cli.options import (
    MOST_ROWS,
    Target,
    connected,
    given_options,
    json_option,
    parse_moment,
    to_time,
)
from pgqpy.cli.output import as_text, say, show_json_line, show_line, show_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pgqpy import Event

EVENTS = {"id": "id", "time": "time", "type": "type", "data": "data"}
EXTRAS = ("extra1", "extra2", "extra3", "extra4")
# The options that choose events, by what is listed; --limit and --json are for all.
CHOOSING = {
    "oldest": {"since", "until", "after", "archive", "types", *EXTRAS},
    "newest": {"newest", "follow", "types", *EXTRAS},
    "dead": {"since", "until", "types", "error", "group"},
    "retrying": set[str](),
    "parked": set[str](),
    "delayed": set[str](),
}
FEW, MANY = 10, 100  # rows without --limit: events of the queue, and others


@click.command("list")
@click.argument("queue", shell_complete=complete.queues)
@click.argument("state", required=False, type=click.Choice(list(CHOOSING)[2:]))
@click.argument("consumer", required=False, shell_complete=complete.consumers)
@click.option("--newest", is_flag=True, help="The newest events instead of the oldest.")
@click.option("-f", "--follow", is_flag=True, help="The newest, then new ones until Ctrl-C.")
@click.option("--since", callback=parse_moment, metavar="TIME", help="Its time is this or later.")
@click.option("--until", callback=parse_moment, metavar="TIME", help="Its time is earlier.")
@click.option("--tick", "after", type=int, metavar="TICK", help="It came after this tick.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="It is of this type, or has this prefix, such as 'order.*'; may be repeated.",
)
@click.option("--extra1", metavar="VALUE", help="Its value is this.")
@click.option("--extra2", metavar="VALUE", help="As --extra1.")
@click.option("--extra3", metavar="VALUE", help="As --extra1.")
@click.option("--extra4", metavar="VALUE", help="As --extra1.")
@click.option("--archive", metavar="LOCATION", help="Read this archive of the queue first.")
@click.option("--error", metavar="CLASS", help="dead: it died of this exception; '': of none.")
@click.option("--group", is_flag=True, help="dead: count them by type and error instead.")
@click.option(
    "--limit",
    type=click.IntRange(min=0, max=MOST_ROWS),
    help=f"Show at most this many.  [default: {FEW}; with a STATE {MANY}]",
)
@json_option
@connected
@click.pass_context
def list_(
    ctx: click.Context,
    /,
    target: Target,
    queue: str,
    state: str | None,
    consumer: str | None,
    **options: Any,
) -> None:
    """List the oldest or newest events of a queue, or those of a consumer in a STATE.

    \b
    dead CONSUMER       its handler gave them up, the newest first
    retrying CONSUMER   it gets them again later, the one that is due first
    parked CONSUMER     keys whose first event failed, the one that waits longest first
    delayed             not yet in the queue, the one that is due first

    TIME is 2026-01-31T14:00, 2026-01-31, or 90s, 30min, 2h, 7d for so long ago; of dead events, the
    time of death. An event of the queue is shown once a later tick exists. Nothing is consumed, and
    retried copies are left out. --follow shows each event once, one per line, and connects again
    after a lost connection.

    Example: pgqpy event list orders --since 2h --type 'order.*' --extra1 eu
    """  # noqa: D301  # click's mark of lines that stay as they are
    what = state or ("newest" if options["newest"] or options["follow"] else "oldest")
    _check(ctx, what, consumer)
    limit = options.pop("limit")
    limit = limit if limit is not None else FEW if state is None else MANY
    if state is not None:
        with target.client() as client:
            options["type"] = next(iter(options["types"]), None)
            event_waiting.show_list(client, state, queue, consumer or "", limit, options)
        return
    extras = {name: [options[name]] for name in EXTRAS if options[name] is not None}
    wanted = Wanted(options["types"], extras)
    if what == "newest":
        _show_newest(target, queue, limit, wanted, options)
    else:
        _show_oldest(target, queue, limit, wanted, options)


def _check(ctx: click.Context, what: str, consumer: str | None) -> None:
    """Refuse options that choose other events, and a consumer too many or too few."""
    given = given_options(ctx)
    for name in set().union(*CHOOSING.values()) - CHOOSING[what]:
        if name in given:
            raise click.UsageError(f"{given[name]} is not for {what} events")
    if what == "dead" and len(ctx.params["types"]) > 1:
        raise click.UsageError("dead events are chosen by one --type")
    if what == "delayed" and consumer is not None:
        raise click.UsageError("delayed events are not a consumer's: leave CONSUMER out")
    if what in {"dead", "retrying", "parked"} and consumer is None:
        raise click.UsageError(f"{what} events are a consumer's: name it after {what}")


def _show_oldest(
    target: Target, queue: str, limit: int, wanted: Wanted, options: dict[str, Any]
) -> None:
    def expired(first: datetime) -> None:
        say(f"queue {queue} keeps events from {as_text(first)} on")

    with target.client() as client:
        now = queries.server_time(client)
        since, until = (to_time(options[name], now) for name in ("since", "until"))
        wanted = wanted._replace(since=since, until=until)
        archive, after = options["archive"], options["after"]
        if archive is None:
            found = oldest(client, queue, limit, wanted, after, expired=expired)
        else:
            found = event_archive.oldest(client, queue, archive, limit, wanted, after)
    _show(found, as_json=options["as_json"])


def _show_newest(
    target: Target, queue: str, limit: int, wanted: Wanted, options: dict[str, Any]
) -> None:
    follow, as_json = options["follow"], options["as_json"]
    with suppress(KeyboardInterrupt) if follow else nullcontext():  # the regular end of --follow
        with target.client() as client:
            events, last = newest(client, queue, limit, wanted)
        if not follow:
            _show(events, as_json=as_json)
            return
        _show_lines(events, as_json=as_json)
        following = Following(queue, last, wanted)
        _show_lines(following.over(partial(target.client, waits=True)), as_json=as_json)


def _show(events: list[Event], *, as_json: bool) -> None:
    show_rows([each._asdict() for each in events], EVENTS, as_json=as_json)
    if not events and not as_json:
        say("no event found: one is shown once a later tick exists")


def _show_lines(events: Iterable[Event], *, as_json: bool) -> None:
    for found in events:
        row = found._asdict()
        if as_json:
            show_json_line(row)
        else:
            show_line([as_text(row[field]) for field in EVENTS.values()])
