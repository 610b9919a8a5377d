"""Events of archives: read with filters, and joined with the queue where an archive ends."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from psycopg.rows import tuple_row

from pgqpy import tick_ranges
from pgqpy.archive.errors import ArchiveMismatch
from pgqpy.archive.files import (
    COLUMNS,
    damaged,
    find_breaks,
    find_identity,
    info_of,
    list_files,
    open_file,
    read_info,
    to_microseconds,
)
from pgqpy.errors import QueueNotFound, RangeExpired
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from typing_extensions import LiteralString

    from pgqpy.archive.files import ArchiveFile, Identity, TickTime
    from pgqpy.archive.store import Store
    from pgqpy.client import Client
    from pgqpy.tick_ranges import Queue


TIME = COLUMNS.get_field_index("ev_time")
EARLIEST = to_microseconds(datetime.min.replace(tzinfo=timezone.utc))
LATEST = to_microseconds(datetime.max.replace(tzinfo=timezone.utc))


class ArchiveSelection(NamedTuple):
    """Which events to read. None: no condition.

    Attributes:
        after: the events that come after this tick.
        up_to: and not after this one.
        since: the events with this time or a later one.
        until: and an earlier one than this.
        types: of one of these types; one that ends with * is a prefix.
        extras: with one of these values in an extra, as {"extra1": ["eu"]}.
    """

    after: int | None = None
    up_to: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    types: Collection[str] | None = None
    extras: Mapping[str, Collection[str]] | None = None


ALL = ArchiveSelection()


def choose_files(
    files: Sequence[ArchiveFile], after: int | None = None, up_to: int | None = None
) -> list[ArchiveFile]:
    """Return the files that hold events after one tick, up to another."""
    return [
        each
        for each in files
        if (after is None or each.to_tick > after) and (up_to is None or each.from_tick < up_to)
    ]


def read_groups(
    store: Store, file: ArchiveFile, wanted: ArchiveSelection = ALL, after: int = 0
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the wanted events of each row group after the first ones, with the group's number.

    Numbers count from 1, and groups without a wanted event are left out. Raises ArchiveDamaged.
    """
    with open_file(store, file.path) as opened:
        info_of(opened, file.path)
        for number in range(after, opened.metadata.num_row_groups):
            if _may_hold(opened.metadata.row_group(number), wanted):
                try:
                    group = opened.read_row_group(number, use_threads=False)
                except (pa.ArrowException, OSError) as error:
                    raise damaged(file.path, error) from error
                found = _select(group.combine_chunks().to_batches()[0], wanted)
                if found.num_rows:
                    yield number + 1, found


def read_events(
    store: Store, files: Sequence[ArchiveFile], wanted: ArchiveSelection = ALL
) -> Iterator[Event]:
    """Yield the wanted events in the order of the files, and by id within a file.

    Memory holds a row group. Times that Python lacks become its first or its last one, as with
    get_tick_events. Raises ArchiveDamaged.
    """
    for file in choose_files(files, wanted.after, wanted.up_to):
        for _, group in read_groups(store, file, wanted):
            columns = group.columns[: len(Event._fields)]
            columns[TIME] = _bounded(columns[TIME])
            yield from map(Event, *(column.to_pylist() for column in columns))


def _bounded(times: pa.Array) -> pa.Array:
    counts = times.cast(pa.int64())
    inside = pc.min_element_wise(pc.max_element_wise(counts, EARLIEST), LATEST)
    return inside.cast(times.type)


def _may_hold(group: pq.RowGroupMetaData, wanted: ArchiveSelection) -> bool:
    """Say whether the smallest and the largest values of a row group allow a wanted event."""
    for name, low, high in (
        ("tick_id", None if wanted.after is None else wanted.after + 1, wanted.up_to),
        ("ev_time", _raw(wanted.since), _raw(wanted.until)),
    ):
        said = group.column(COLUMNS.get_field_index(name)).statistics
        if said is None or not said.has_min_max:
            continue
        if (low is not None and said.max_raw < low) or (high is not None and said.min_raw > high):
            return False
    return True


def _raw(time: datetime | None) -> int | None:
    return None if time is None else to_microseconds(time)


def _select(batch: pa.RecordBatch, wanted: ArchiveSelection) -> pa.RecordBatch:
    for name, compare, value in (
        ("tick_id", pc.greater, wanted.after),
        ("tick_id", pc.less_equal, wanted.up_to),
        ("ev_time", pc.greater_equal, wanted.since),
        ("ev_time", pc.less, wanted.until),
    ):
        if value is not None:
            kind = COLUMNS.field(name).type
            batch = batch.filter(compare(batch[name], pa.scalar(value, kind)))
    texts = {"type": wanted.types, **(wanted.extras or {})}
    for name, values in texts.items():
        if values is not None and not (name == "type" and "*" in values):
            batch = batch.filter(_is_one_of(batch[f"ev_{name}"], values, prefixes=name == "type"))
    return batch


def _is_one_of(texts: pa.Array, values: Collection[str], *, prefixes: bool) -> pa.Array:
    """Say which texts are one of these, or begin with one that ends with *; a null does not."""
    found = pc.is_in(texts, pa.array(list(values), pa.string()))
    for value in values:
        if prefixes and value.endswith("*"):
            found = pc.or_(found, pc.fill_null(pc.starts_with(texts, value[:-1]), fill_value=False))
    return found


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
    if row[0] != identity.created:
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
