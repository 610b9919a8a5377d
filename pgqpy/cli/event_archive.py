"""Events of an archive and of its queue, for ``pgqpy event list --archive``."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from pgqpy import archive, browse, calls, tick_ranges
from pgqpy.cli.output import as_text, say
from pgqpy.errors import InvalidArgument, NotFound, RangeExpired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pgqpy import Client, Event
    from pgqpy.archive.seam import JoinedArchive
    from pgqpy.archive.store import Store
    from pgqpy.browse import Wanted


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
    archive.check_packages()
    from pgqpy.archive.store import Store

    try:
        return Store(location)
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc


def _join(client: Client, queue: str, location: str, wanted: Wanted) -> JoinedArchive:
    """Find the seam. The server checks the types, and that this role may read events."""
    from pgqpy.archive.seam import join_archive

    store = open_store(location)
    with tick_ranges.locked_queue(client, queue) as found:
        browse.select_events(client, queue, found.last_tick, found.last_tick, wanted)
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
        return browse.oldest(client, queue, limit, wanted, start)
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
