"""``pgqpy archive``: keep the events of a queue in files, and read them from there."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from pgqpy import calls, tick_ranges
from pgqpy.archive import check_packages
from pgqpy.cli import complete, queries
from pgqpy.cli.options import (
    Noun,
    Target,
    connected,
    json_option,
    on_terminal,
    parse_moment,
    parse_timedelta,
    to_time,
)
from pgqpy.cli.output import as_text, say, show_rows
from pgqpy.errors import InvalidArgument, NotFound, RangeExpired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from pgqpy import Client, Event
    from pgqpy.archive.files import QueueArchive
    from pgqpy.archive.read import JoinedArchive
    from pgqpy.archive.store import Store
    from pgqpy.cli.options import Moment
    from pgqpy.tick_ranges import Wanted

QUEUES = {
    "queue": "queue",
    "files": "files",
    "bytes": "bytes",
    "from tick": "from_tick",
    "to tick": "to_tick",
    "from": "from_time",
    "to": "to_time",
}

# What the server must not store: the user and password, or access key, of a URL. In URLs of Azure
# the container is in that place, and two containers are two archives.
SECRET = re.compile(r"\b(?!(?:abfss?|adl|az|wasbs?)://[^/:]*@)([\w+.-]+://)[^/]*@")

location_argument = click.argument("location")
queue_option = click.option("--queue", shell_complete=complete.queues, help="This queue only.")


@click.group(cls=Noun)
def archive() -> None:
    """Keep events for longer than the queue does: in Parquet files."""


@archive.command()
@click.option("--queue", required=True, shell_complete=complete.queues, help="The queue to read.")
@click.option(
    "--to", "to", required=True, metavar="LOCATION", help="A folder, or a URL such as s3://…"
)
@click.option(
    "--consumer",
    shell_complete=complete.consumers,
    default="archive",
    show_default=True,
    help="The archive's consumer.",
)
@click.option(
    "--max-events",
    type=click.IntRange(1, 1_000_000_000),
    default=1_000_000,
    show_default=True,
    help="Events in a file, approximately.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Accept this server as the successor of the one that wrote the files.",
)
@click.option(
    "--new", is_flag=True, help="Begin another archive here, though the consumer has one elsewhere."
)
@connected
def run(target: Target, *, to: str, **options: Any) -> None:
    """Archive the events of a queue up to its last tick, then end.

    The first run registers a consumer at the oldest event that the queue keeps; from then on the
    queue keeps events until they are archived. Let a timer run the command as often as you want
    files. It may be killed at any time: the next run continues where it stopped.

    Example: pgqpy archive run --queue orders --to s3://bucket/events
    """
    store = open_store(to)
    from pgqpy.archive.run import ArchiveOptions, run_archive

    wanted = ArchiveOptions(**options)
    files, events = run_archive(wanted, store, target.dsn, say)
    say(f"archived {events:,} event(s) of {wanted.queue} in {files} file(s)")


@archive.command("list")
@location_argument
@queue_option
@click.option("--verify", is_flag=True, help="Read all files, and report what is damaged instead.")
@json_option
def list_(location: str, *, queue: str | None, verify: bool, as_json: bool) -> int:
    """List the queues in an archive, with the ticks, times and sizes of their files.

    With --verify each file must begin where the one before ends, be as it was written, and come
    from the same queue. The exit code is 1 if there is a problem, or no file.

    Example: pgqpy archive list s3://bucket/events --queue orders
    """
    store = open_store(location)
    if verify:
        return _verify(store, location, queue)
    rows = [_summary(store, found) for found in _chosen(store, queue)]
    if not rows and not store.exists():
        raise InvalidArgument(f"there is no folder {location}", parameter="location")
    show_rows(rows, QUEUES, as_json=as_json)
    return 0


def _verify(store: Store, location: str, queue: str | None) -> int:
    """Read all files, and print what is damaged or missing."""
    from pgqpy.archive import files as archived

    count, problems = 0, 0
    for queue_id in archived.list_queue_ids(store):
        files = archived.list_files(store, queue_id)
        identity = archived.find_identity(store, files)
        if queue is not None and (identity is None or identity.queue != queue):
            continue
        count += len(files)
        for problem in archived.verify(store, queue_id):
            problems += 1
            click.echo(problem)
        for left in archived.describe_unfinished(store, queue_id):
            say(left)
    if queue is not None and not count:
        archived.find_archive(store, queue)
    if not count:
        raise InvalidArgument(f"{location} holds no archive", parameter="location")
    say(f"{count} file(s) read: {problems or 'no'} problem(s)")
    return 1 if problems else 0


@archive.command()
@location_argument
@click.option(
    "--older-than",
    required=True,
    metavar="TIME",
    callback=parse_timedelta,
    help="Age of a file's last tick, such as 90d.",
)
@queue_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def expire(location: str, *, older_than: timedelta, queue: str | None, yes: bool) -> None:
    """Remove the files whose last tick is older than this.

    The newest file of a queue stays, whatever its age: the next run continues from its end.

    Example: pgqpy archive expire s3://bucket/events --older-than 90d
    """
    store = open_store(location)
    from pgqpy.archive.files import find_expired, read_info, remove

    for found in _chosen(store, queue):
        files = find_expired(store, found.identity.queue_id, older_than)
        if not files:
            say(f"{found.identity.queue}: nothing is older than {as_text(older_than)}")
            continue
        since = as_text(read_info(store, files[0].path).start.time)
        until = as_text(read_info(store, files[-1].path).end.time)
        size = sum(file.size for file in files)
        what = f"{len(files)} file(s) of {found.identity.queue}, {size:,} bytes, {since} to {until}"
        if not yes:
            if not on_terminal():
                raise click.ClickException(f"this removes {what}; add --yes to remove them")
            if not click.confirm(f"Remove {what}?", err=True):
                raise click.ClickException("nothing was removed")
        remove(store, files)
        say(f"removed {what}")


@archive.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("consumer", shell_complete=complete.consumers)
@click.option("--from", "location", required=True, metavar="LOCATION", help="A folder or a URL.")
@click.option("--since", metavar="TIME", help="Events with this time or a later one.")
@click.option("--until", metavar="TIME", help="Events with an earlier time.")
@click.option("--again", is_flag=True, help="Begin anew, also if a replay is done or unfinished.")
@connected
def replay(
    target: Target,
    queue: str,
    consumer: str,
    *,
    location: str,
    since: str | None,
    until: str | None,
    again: bool,
) -> None:
    """Insert archived events again for one consumer, after all that is in the queue.

    Other consumers do not get these events. Left out are events that the consumer has yet to get,
    that wait for a retry, that its filter does not take, or that were cancelled lately. A
    detached consumer is refused: attach it first. TIME is 2026-01-31T14:00, 2026-01-31, or 90s,
    30min, 2h, 7d for so long ago.

    If the command is killed, run it again: it continues where it stopped, and inserts each event
    once. For events that the queue still keeps, pgqpy consumer seek is faster.

    Example: pgqpy archive replay orders billing --from s3://bucket/events --since 2026-01-01
    """
    ctx = click.get_current_context()
    first, last = (_parse(ctx, name, text) for name, text in (("since", since), ("until", until)))
    store = open_store(location)
    from pgqpy.archive.replay import ReplayOptions
    from pgqpy.archive.replay import replay as insert

    words = {"--from": SECRET.sub(r"\1", location), "--since": since, "--until": until}
    asked = " ".join(f"{name} {word}" for name, word in words.items() if word is not None)
    with target.client() as client:
        now = queries.server_time(client)
        options = ReplayOptions(
            queue, consumer, asked, to_time(first, now), to_time(last, now), again
        )
        done = insert(client, store, options, say)
    message = f"inserted {done.inserted:,} event(s) again for {consumer} on {queue}"
    if done.left_out:
        message += f"; left out {done.left_out:,} that it has yet to get or does not take"
    say(message)


def _chosen(store: Store, queue: str | None) -> Iterator[QueueArchive]:
    from pgqpy.archive.files import find_archive, list_archives

    if queue is None:
        yield from list_archives(store)
    else:
        yield find_archive(store, queue)


def _summary(store: Store, found: QueueArchive) -> dict[str, Any]:
    from pgqpy.archive.files import read_info

    first = read_info(store, found.files[0].path)
    return {
        **found.identity._asdict(),
        "files": len(found.files),
        "bytes": sum(file.size for file in found.files),
        "from_tick": first.start.tick,
        "to_tick": found.newest.end.tick,
        "from_time": first.start.time,
        "to_time": found.newest.end.time,
    }


def _parse(ctx: click.Context, name: str, text: str | None) -> Moment | None:
    (param,) = (each for each in ctx.command.params if each.name == name)
    return parse_moment(ctx, param, text)


def oldest(
    client: Client, queue: str, location: str, limit: int, wanted: Wanted, after: int | None = None
) -> list[Event]:
    """Return the oldest wanted events, at most `limit`: those of the archive, then the queue's.

    No transaction is open while files are read. If rotation takes the next events meanwhile, the
    archive has them, and goes on.
    """
    start, seam, found = after, -1, list["Event"]()
    while True:
        joined = _join(client, queue, location, wanted)
        if start is None:
            start = _start(client, queue, joined, wanted.since)
        if joined.first <= start < joined.seam:
            found += islice(_archived(joined, start, wanted), limit - len(found))
            start = joined.seam
        missing = limit - len(found)
        if found and missing == 0:
            return found
        try:
            return found + _from_queue(client, queue, joined, missing, wanted, start)
        except (RangeExpired, NotFound):
            if joined.seam <= seam:
                raise
            seam = joined.seam


def open_store(location: str) -> Store:
    """Open the location of an archive's files; UsageError if it cannot be opened."""
    check_packages()
    from pgqpy.archive.store import Store

    try:
        return Store(location)
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc


def _join(client: Client, queue: str, location: str, wanted: Wanted) -> JoinedArchive:
    """Find the seam. The server checks the types, and that this role may read events."""
    from pgqpy.archive.read import join_archive

    store = open_store(location)
    with tick_ranges.locked_queue(client, queue) as found:
        tick_ranges.select_events(client, queue, found.last_tick, found.last_tick, wanted)
        return join_archive(client, store, found)


def _start(client: Client, queue: str, joined: JoinedArchive, since: datetime | None) -> int:
    """Return the tick after which all wanted events come, as far as they still exist."""
    if since is None:
        return min(joined.first, joined.first_live)
    found = client.call(calls.ticks.get_tick_at(queue, since))
    return _archived_start(joined, since) if found is None else found


def _archived_start(joined: JoinedArchive, since: datetime) -> int:
    """Return the start of the first file that ends later: earlier files have no such event."""
    from pgqpy.archive.files import read_info

    start = joined.seam
    for file in reversed(joined.files):
        if read_info(joined.store, file.path).end.time <= since:
            return start
        start = file.from_tick
    begun = read_info(joined.store, joined.files[0].path).start.time
    if begun > since:
        say(f"the archive holds events from {as_text(begun)} on")
    return start


def _from_queue(
    client: Client, queue: str, joined: JoinedArchive, limit: int, wanted: Wanted, start: int
) -> list[Event]:
    if joined.is_gap and joined.seam <= start < joined.first_live:
        raise joined.lacks(queue)
    try:
        return tick_ranges.oldest(client, queue, limit, wanted, start)
    except RangeExpired as error:
        if start >= joined.first:
            raise
        raise RangeExpired(
            f"the archive of queue {queue!r} begins at tick {joined.first}: events after tick "
            f"{start} have expired",
            queue=queue,
            tick_id=start,
            first_tick=joined.first,
        ) from error


def _archived(joined: JoinedArchive, start: int, wanted: Wanted) -> Iterator[Event]:
    from pgqpy.archive import read

    asked = read.ArchiveSelection(
        after=start,
        up_to=joined.seam,
        since=wanted.since,
        until=wanted.until,
        types=wanted.types or None,
        extras=wanted.extras or None,
    )
    return read.read_events(joined.store, joined.files, asked)
