"""Replay: archived events inserted again for one consumer, each once in spite of kills."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from pgqpy import calls, tick_ranges
from pgqpy.archive.errors import ReplayRefused
from pgqpy.archive.files import read_info
from pgqpy.archive.read import ArchiveSelection, choose_files, join_archive, read_groups
from pgqpy.calls.replay import ArchivedEvents, ReplayPosition

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pgqpy.archive.store import Store
    from pgqpy.calls.replay import Replay
    from pgqpy.client import Client

SENT = ("ev_id", "ev_time", "tick_id", "ev_type", "ev_data", *(f"ev_extra{n}" for n in range(1, 5)))


class ReplayOptions(NamedTuple):
    """What to replay.

    Attributes:
        queue: the queue.
        consumer: the consumer that gets the events.
        asked: the arguments of the command, as text. The same text continues an unfinished replay.
        since: events with this time or a later one.
        until: and an earlier one.
        again: begin anew, also if a replay is done or unfinished.
    """

    queue: str
    consumer: str
    asked: str
    since: datetime | None = None
    until: datetime | None = None
    again: bool = False


class Replayed(NamedTuple):
    """How many events a replay has inserted in all, and how many this run left out."""

    inserted: int
    left_out: int


def replay(
    client: Client, store: Store, options: ReplayOptions, say: Callable[[str], None]
) -> Replayed:
    """Insert archived events again for one consumer, behind its backlog.

    Kill it at any time: the same call continues after the last events that were inserted.

    Raises:
        ReplayRefused: another replay is unfinished, this one is done, or another process runs it.
        ArchiveMismatch: the archive is that of another queue or another history.
        ArchiveDamaged: a file cannot be read.
        ConsumerNotFound, ConsumerRunning, WrongMode: the consumer takes no such events.
        ConsumerDetached: attach it first.
    """
    with tick_ranges.locked_queue(client, options.queue) as queue:
        joined = join_archive(client, store, queue)
    begun = _begin(client, options, say)
    wanted = ArchiveSelection(up_to=joined.seam, since=begun.since, until=begun.until)
    position, inserted, read = begun.position, begun.events, 0
    if 0 < position.tick < joined.first:
        say(f"the events after tick {position.tick}, up to tick {joined.first}, have expired")
    for file in choose_files(joined.files, up_to=joined.seam):
        if file.to_tick < position.tick or _ends_before(store, file.path, begun.since):
            continue
        after = position.group if file.to_tick == position.tick else 0
        for number, group in read_groups(store, file, wanted, after):
            to_position = ReplayPosition(file.to_tick, number)
            inserted += _insert(client, options, position, to_position, _columns(group))
            position, read = to_position, read + group.num_rows
        if position.tick == file.to_tick:
            say(f"{inserted:,} event(s) up to tick {position.tick}")
    _insert(client, options, position, position, ArchivedEvents(), done=True)
    return Replayed(inserted, read - (inserted - begun.events))


def _begin(client: Client, options: ReplayOptions, say: Callable[[str], None]) -> Replay:
    queue, consumer, asked, since, until, again = options
    begun = client.call(
        calls.replay.begin_replay(queue, consumer, asked, since, until, again=again)
    )
    did = f"inserted {begun.events:,} event(s)"
    if begun.asked != asked:
        raise ReplayRefused(
            f"another replay for consumer {consumer!r} is unfinished, it {did} since "
            f"{begun.begun}: {begun.asked}. Run that command again to finish it, or add --again to "
            "give it up",
            queue=queue,
            consumer=consumer,
        )
    if begun.done is not None:
        raise ReplayRefused(
            f"this replay is done, it {did} by {begun.done}: add --again to insert them once more",
            queue=queue,
            consumer=consumer,
        )
    if begun.position.tick:
        say(f"continuing after tick {begun.position.tick}: the replay {did} since {begun.begun}")
    return begun


def _ends_before(store: Store, path: str, since: datetime | None) -> bool:
    return since is not None and read_info(store, path).end.time <= since


def _columns(group: pa.RecordBatch) -> ArchivedEvents:
    times = group["ev_time"].cast(pa.int64())
    columns = [times if name == "ev_time" else group[name] for name in SENT]
    return ArchivedEvents(*(column.to_pylist() for column in columns))


def _insert(
    client: Client,
    options: ReplayOptions,
    position: ReplayPosition,
    to_position: ReplayPosition,
    events: ArchivedEvents,
    *,
    done: bool = False,
) -> int:
    call = calls.replay.replay_events(
        options.queue, options.consumer, position, to_position, events, done=done
    )
    inserted = client.call(call)
    if inserted is None:
        raise ReplayRefused(
            f"another process runs the replay for consumer {options.consumer!r}, or the "
            "consumer was registered anew: let that process end, then run the command again",
            queue=options.queue,
            consumer=options.consumer,
        )
    return inserted
