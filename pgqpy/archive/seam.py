"""Where an archive ends and the queue goes on: both are read as one range of ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg.rows import tuple_row

from pgqpy import tick_ranges
from pgqpy.archive.errors import ArchiveMismatch
from pgqpy.archive.files import find_breaks, find_identity, list_files, read_info
from pgqpy.errors import QueueNotFound, RangeExpired

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import LiteralString

    from pgqpy.archive.files import ArchiveFile, Identity, TickTime
    from pgqpy.archive.store import Store
    from pgqpy.client import Client
    from pgqpy.tick_ranges import Queue

CREATED: LiteralString = "select queue_created from pgq.queue where queue_id = %s"
# Which of these ticks the queue has, with the same times, and can be read from; and how many it has
# with other times.
KNOWN: LiteralString = """
    select max(t.tick_id) filter (where t.tick_time = c.tick_time),
           count(*) filter (where t.tick_time <> c.tick_time)
      from pgq.tick t
      join unnest(%s::bigint[], %s::timestamptz[]) c (tick_id, tick_time) using (tick_id)
     where t.tick_queue = %s and t.tick_id >= %s"""


class JoinedArchive(NamedTuple):
    """An archive, and the tick where its queue goes on.

    Attributes:
        store: where the files are.
        files: the files up to the seam, in the order of their ticks; not empty.
        seam: events up to this tick are read from the files, later ones from the queue.
        first_live: the first tick that can be read from in the queue.
        is_gap: the queue lacks events after the seam.
    """

    store: Store
    files: list[ArchiveFile]
    seam: int
    first_live: int
    is_gap: bool

    @property
    def first(self) -> int:
        """The tick after which the archive's events come."""
        return self.files[0].from_tick

    def lacks(self, queue: str) -> RangeExpired:
        """Return the error for events that neither the archive nor the queue has."""
        return RangeExpired(
            f"events after tick {self.seam} of queue {queue!r}, where its archive ends, were "
            f"rotated away: the queue goes on at tick {self.first_live}. Read up to tick "
            f"{self.seam}, or from tick {self.first_live} on",
            queue=queue,
            tick_id=self.seam,
            first_tick=self.first_live,
        )


def join_archive(client: Client, store: Store, queue: Queue) -> JoinedArchive:
    """Find the tick up to which the archive of a queue is read.

    Call it inside `tick_ranges.locked_queue`, which keeps rotation and compaction away: so the
    queue has the seam's tick, and all events after it, until the end of the block.

    Files up to the position of the archive's consumer are complete. A later file may come from
    another server, or be incomplete. Without a consumer, all files count. The seam is the last tick
    of these files that the queue has too, with the same number and time: a failover may have lost
    the archive's last ticks, and compaction may have removed some.

    Raises:
        ArchiveMismatch: it is from another queue or another history, or files are
            missing.
        ArchiveDamaged: a footer cannot be read.
    """
    files = list_files(store, queue.id)
    identity = find_identity(store, files)
    if identity is None:
        raise ArchiveMismatch(
            f"the location holds no archive of queue {queue.name!r}, which has the id {queue.id}: "
            "pgqpy archive list shows what it holds",
            queue=queue.name,
        )
    _check_queue(client, queue, identity)
    position = tick_ranges.find_position(client, queue.name, identity.consumer)
    if position is not None:
        files = [each for each in files if each.to_tick <= position.tick]
    if not files:
        raise ArchiveMismatch(
            f"the archive of queue {queue.name!r} has no finished file: run pgqpy archive run",
            queue=queue.name,
        )
    for problem in find_breaks(files):
        raise ArchiveMismatch(f"{problem}: pgqpy archive list --verify names all", queue=queue.name)
    return _find_seam(client, store, queue, files)


def _check_queue(client: Client, queue: Queue, identity: Identity) -> None:
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(CREATED, [queue.id]).fetchone()
    if row is None:
        raise QueueNotFound(queue=queue.name)
    if (queue.name, row[0]) != (identity.queue, identity.created):
        raise ArchiveMismatch(
            f"the archive is from queue {identity.queue!r}, created {identity.created}, not of "
            f"{queue.name!r}, created {row[0]}: it was dropped and created again, or this is "
            "another database",
            queue=queue.name,
        )


def _find_seam(
    client: Client, store: Store, queue: Queue, files: list[ArchiveFile]
) -> JoinedArchive:
    differs = False
    for number in range(len(files), 0, -1):
        last = files[number - 1]
        info = read_info(store, last.path)
        tick, others = _known(client, queue, [info.start, *info.ticks, info.end])
        if tick is not None:
            left = [each for each in files[:number] if each.from_tick < tick]
            return JoinedArchive(store, left or files[:1], tick, queue.first_tick, is_gap=False)
        differs = differs or others > 0
        if last.from_tick < queue.low_tick:
            break  # the queue has no ticks of the files before
    if differs:
        raise ArchiveMismatch(
            f"the archive does not fit queue {queue.name!r}: its ticks have other times here. The "
            "server lost them, as in a failover or a restore from a backup, and used their numbers "
            "again, or this is another database",
            queue=queue.name,
        )
    return JoinedArchive(store, files, files[-1].to_tick, queue.first_tick, is_gap=True)


def _known(client: Client, queue: Queue, tick_times: list[TickTime]) -> tuple[int | None, int]:
    ticks: list[int] = [tick_time.tick for tick_time in tick_times]
    times: list[datetime] = [tick_time.time for tick_time in tick_times]
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(KNOWN, [ticks, times, queue.id, queue.low_tick]).fetchone()
    assert row is not None  # noqa: S101  # an aggregate has a row
    return row[0], row[1]
