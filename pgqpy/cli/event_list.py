"""``pgqpy event list``: the events of a queue, those that come, those that wait or are dead."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from psycopg import sql

from pgqpy import tick_ranges
from pgqpy.calls import read
from pgqpy.cli import archive, complete, event_waiting, queries
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
from pgqpy.client.listening import channel
from pgqpy.consumers.connections import is_loss
from pgqpy.texts import describe
from pgqpy.tick_ranges import Wanted, newest, oldest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from contextlib import AbstractContextManager
    from datetime import datetime

    from pgqpy import Client, Event
    from pgqpy.tick_ranges import Cut


POLL_INTERVAL = 1.0  # seconds; a tick notifies, unless the notification queue is full
SHORTEST = 0.05  # seconds between two polls, however often the queue is ticked
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two attempts to connect


class Following:
    """Yields the wanted events of a queue after a tick, as new ticks come.

    What was shown is known by snapshots, since compaction removes ticks: everything that `shown`
    sees, and of the range up to `part` the events up to an id.
    """

    def __init__(self, queue: str, shown: Cut, wanted: Wanted) -> None:
        """Begin behind a tick."""
        self.queue, self.wanted, self.shown = queue, wanted, shown
        self.part: tuple[Cut, int, int] | None = None  # and the last event shown: id, txid

    def over(
        self, connect: Callable[[], AbstractContextManager[Client]]
    ) -> Generator[Event, None, None]:
        """Yield events without end; connect again after a lost connection."""
        pause = FIRST_PAUSE
        while True:
            try:
                with connect() as client:
                    for event in self.events(client):
                        pause = FIRST_PAUSE
                        yield event
            except Exception as error:
                if not is_loss(error):
                    raise
                text = f"the connection is lost ({describe(error)}), tries again in {pause:.1f} s"
                say(text)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def events(self, client: Client) -> Generator[Event, None, None]:
        """Yield events over one connection, without end."""
        name = sql.Identifier(channel(self.queue))
        client.connection.execute(sql.SQL("listen {}").format(name))
        while True:
            yield from self._new(client)
            for _ in client.connection.notifies(timeout=POLL_INTERVAL, stop_after=1):
                pass
            for _ in client.connection.notifies(timeout=SHORTEST):
                pass  # of the ticks meanwhile

    def _new(self, client: Client) -> Generator[Event, None, None]:
        """Yield the events up to the last tick. They are copied, so no transaction stays open."""
        name = read.cursor_name(self.shown.tick_id)
        with tick_ranges.reading(client):
            last = tick_ranges.find_last(client, self.queue)
            if last.tick_id == self.shown.tick_id:
                return
            start = self._start(client, last)
            events, query = tick_ranges.select_events(
                client, self.queue, start, last.tick_id, self.wanted
            )
            declare = sql.SQL(
                "declare {} no scroll cursor with hold for {}{} order by ev_id, ev_txid"
            )
            cursor = declare.format(sql.Identifier(name), query, self._not_shown())
            client.runner.read(events, cursor, prepare=False)
        for some in client.runner.fetch(events, name, read.FETCH_SIZE, None, held=True):
            for event in some:
                self.part = (last, event.id, event.txid)
                yield event
        self.shown, self.part = last, None

    def _start(self, client: Client, last: Cut) -> int:
        """Return the tick to read from: the last one, or the one before it that is kept."""
        shown = self.shown.tick_id
        if last.tick_id < shown:  # another server took over, without the last ticks
            self._tell(f"tick {shown} does not exist any more", last)
            self.shown, self.part = last, None
            return last.tick_id
        left = tick_ranges.find_tick(client, self.queue, shown)
        if left is not None and left.tick_id == shown and left != self.shown:
            # As above, with as many ticks since; or repair_queue, whose snapshots are new.
            self._tell(f"tick {shown} is another one than before, events may be missing", left)
            self.shown, self.part = left, None
        if left is not None:
            return left.tick_id
        first = tick_ranges.find_first(client, self.queue)
        self._tell(f"events after tick {shown} were rotated away", first)
        return first.tick_id

    def _tell(self, text: str, goes_on: Cut) -> None:
        say(f"queue {self.queue}: {text}: going on after tick {goes_on.tick_id}")

    def _not_shown(self) -> sql.Composed:
        seen = sql.SQL(" and {}txid_visible_in_snapshot(ev_txid, {}::txid_snapshot)")
        shown = seen.format(sql.SQL("not "), sql.Literal(self.shown.snapshot))
        if self.part is None:
            return shown
        cut, event_id, txid = self.part
        part = sql.SQL(
            " and not ((ev_id, ev_txid) <= ({}, {})"
            " and txid_visible_in_snapshot(ev_txid, {}::txid_snapshot))"
        )
        return shown + part.format(event_id, txid, sql.Literal(cut.snapshot))


EVENTS = {"id": "id", "time": "time", "type": "type", "data": "data"}
EXTRAS = ("extra1", "extra2", "extra3", "extra4")
# The options that choose events, by what is listed; --limit and --json are for all.
CHOOSING = {
    "oldest": {"since", "until", "after", "archive", "types", *EXTRAS},
    "newest": {"newest", "follow", "types", *EXTRAS},
    "dead": {"since", "until", "types", "error", "group"},
    "retrying": set[str](),
    "parked": set[str](),
    "kept": set[str](),
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
    parked CONSUMER     those that keep their key, and what waits behind them, by key
    kept CONSUMER       finish_event ended and kept them, the lowest id first
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
    if what in {"dead", "retrying", "parked", "kept"} and consumer is None:
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
        location, after = options["archive"], options["after"]
        if location is None:
            found = oldest(client, queue, limit, wanted, after, expired=expired)
        else:
            found = archive.oldest(client, queue, location, limit, wanted, after)
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
