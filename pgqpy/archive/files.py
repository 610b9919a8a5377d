"""The files of an archive: names, columns, footers; what a location holds; writing, checks."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg import sql

from pgqpy import calls
from pgqpy.archive.errors import ArchiveDamaged, ArchiveMismatch
from pgqpy.calls import read, ticks
from pgqpy.records import Event
from pgqpy.texts import noun
from pgqpy.tick_ranges import TickFinder

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from pgqpy.archive.store import Store
    from pgqpy.client import Client
    from pgqpy.records import TickInfo


VERSION = 1
KEY = b"pgqpy"  # of our part of the footer
UNFINISHED = re.compile(r"\d+-\d+-[0-9a-f]{8}\.parquet\.[0-9a-f]{8}\.tmp", re.ASCII)
NAME = re.compile(r"(\d+)-(\d+)-([0-9a-f]{8})\.parquet", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
COLUMNS = pa.schema(
    [
        pa.field("ev_id", pa.int64(), nullable=False),
        pa.field("ev_time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("ev_txid", pa.int64(), nullable=False),
        pa.field("ev_retry", pa.int32()),
        *(pa.field(f"ev_{name}", pa.string()) for name in ("type", "data")),
        *(pa.field(f"ev_extra{number}", pa.string()) for number in range(1, 5)),
        pa.field("tick_id", pa.int64(), nullable=False),
    ]
)


class Identity(NamedTuple):
    """The queue that an archive holds, and the consumer that reads for it.

    A dropped queue that is created again has another id; a restored or copied one is in another
    cluster or database.
    """

    queue: str
    queue_id: int
    created: datetime  # of the queue
    cluster: int | None  # identifier of the cluster; None: hidden by the server
    database: int  # oid
    consumer: str

    def is_same_queue(self, other: Identity) -> bool:
        """Say whether it is the same queue and consumer, on whatever server."""
        return (self.queue_id, self.created, self.consumer) == (
            other.queue_id,
            other.created,
            other.consumer,
        )


class TickTime(NamedTuple):
    """A tick and its time."""

    tick: int
    time: datetime


class FileInfo(NamedTuple):
    """What the footer of a file says.

    `ticks` are ticks of the range with their times, ordered: not all of them in a long range.
    """

    identity: Identity
    start: TickTime
    end: TickTime
    events: int
    ticks: list[TickTime]


class ArchiveFile(NamedTuple):
    """A file, as its name tells: the events after `from_tick`, up to `to_tick`."""

    path: str
    from_tick: int
    to_tick: int
    mark: str  # of the last tick: see file_path
    size: int  # bytes


def file_path(queue_id: int, start: TickTime, end: TickTime) -> str:
    """Return the path of a range's file in its location.

    It contains a hash of the last tick's time. After a failover that lost ticks, the new server
    uses their numbers again: the hash keeps its files from replacing those of the old server.
    """
    return f"{queue_id}/{start.tick}-{end.tick}-{mark_of(end)}.parquet"


def mark_of(end: TickTime) -> str:
    """Return the hash of a tick's time."""
    return hashlib.sha256(str(to_microseconds(end.time)).encode()).hexdigest()[:8]


def parse_name(folder: str, name: str, size: int) -> ArchiveFile | None:
    """Return the file with this name; None if it is no file of an archive."""
    found = NAME.fullmatch(name)
    return found and ArchiveFile(f"{folder}/{name}", int(found[1]), int(found[2]), found[3], size)


def to_footer(info: FileInfo) -> dict[bytes, bytes]:
    """Return the entries of a footer."""
    said = {
        "version": VERSION,
        **info.identity._asdict(),
        "created": to_microseconds(info.identity.created),
        "start": _from_tick_time(info.start),
        "end": _from_tick_time(info.end),
        "events": info.events,
        "ticks": [_from_tick_time(each) for each in info.ticks],
    }
    return {KEY: json.dumps(said).encode()}


def from_footer(entries: dict[bytes, bytes] | None) -> FileInfo:
    """Return what a footer says; ValueError if pgqpy did not write it, or a later pgqpy did."""
    try:
        said: dict[str, Any] = json.loads((entries or {})[KEY])
        if said["version"] != VERSION:
            raise ValueError(f"format {said['version']}, which a later pgqpy wrote")
        names = {name: said[name] for name in Identity._fields}
        identity = Identity(**{**names, "created": _to_time(said["created"])})
        tick_times = [_to_tick_time(each) for each in (said["start"], said["end"], *said["ticks"])]
        return FileInfo(identity, tick_times[0], tick_times[1], int(said["events"]), tick_times[2:])
    except (KeyError, TypeError) as error:
        raise ValueError("not a file of an archive") from error


def _from_tick_time(tick_time: TickTime) -> list[int]:
    return [tick_time.tick, to_microseconds(tick_time.time)]


def _to_tick_time(numbers: list[int]) -> TickTime:
    tick, time = numbers
    return TickTime(int(tick), _to_time(time))


def to_microseconds(time: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (time - EPOCH) // MICROSECOND


def _to_time(microseconds: int) -> datetime:
    return EPOCH + microseconds * MICROSECOND


class QueueArchive(NamedTuple):
    """The files of one queue, in the order of their ticks, and the footer of the newest."""

    files: list[ArchiveFile]
    newest: FileInfo

    @property
    def identity(self) -> Identity:
        """The queue that was archived."""
        return self.newest.identity


def list_files(store: Store, queue_id: int) -> list[ArchiveFile]:
    """Return the files of a queue, in the order of their ticks."""
    folder = str(queue_id)
    found = store.list(folder)
    named = (parse_name(folder, name, size) for name, size, is_folder in found if not is_folder)
    return sorted((each for each in named if each), key=lambda each: each[1:4])


def unfinished_files(store: Store, queue_id: int) -> list[str]:
    """Return the paths of incomplete files, which runs that died have left."""
    names = (name for name, _, is_folder in store.list(str(queue_id)) if not is_folder)
    return [f"{queue_id}/{name}" for name in names if UNFINISHED.fullmatch(name)]


def list_queue_ids(store: Store) -> list[int]:
    """Return the ids of the queues that have a folder in a location."""
    names = [name for name, _, is_folder in store.list() if is_folder]
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def find_identity(store: Store, files: Sequence[ArchiveFile]) -> Identity | None:
    """Return the queue of the archive, from the newest readable file; None if there is none."""
    for each in reversed(files):
        with suppress(ArchiveDamaged):
            return read_info(store, each.path).identity
    return None


def list_archives(store: Store) -> list[QueueArchive]:
    """Return the archives in a location, ordered by the queue's id; ArchiveDamaged."""
    listed = (list_files(store, queue_id) for queue_id in list_queue_ids(store))
    return [QueueArchive(files, read_info(store, files[-1].path)) for files in listed if files]


def find_archive(store: Store, queue: str) -> QueueArchive:
    """Return the archive of a queue, by its name.

    Raises ArchiveMismatch if the location has none, or its files do not join end to start;
    ArchiveDamaged.
    """
    for found in list_archives(store):
        if found.identity.queue == queue:
            for problem in find_breaks(found.files):
                raise ArchiveMismatch(
                    f"{problem}: pgqpy archive list --verify names all", queue=queue
                )
            return found
    raise ArchiveMismatch(f"the location holds no archive of queue {queue!r}", queue=queue)


def find_breaks(files: Sequence[ArchiveFile]) -> Iterator[str]:
    """Describe each place where a file does not begin at the tick where the one before ends."""
    for before, each in itertools.pairwise(files):
        if each.from_tick != before.to_tick:
            kind = "are in no file" if each.from_tick > before.to_tick else "are in both"
            first, last = sorted((before.to_tick, each.from_tick))
            yield (
                f"{before.path} and {each.path} do not join: events from tick {first} to {last} "
                f"{kind}"
            )


def read_info(store: Store, path: str) -> FileInfo:
    """Return what the footer of a file says; ArchiveDamaged if it cannot be read."""
    with open_file(store, path) as file:
        return info_of(file, path)


@contextmanager
def open_file(store: Store, path: str) -> Iterator[pq.ParquetFile]:
    """Open a file for a block; its pages are compared with their checksums."""
    try:
        stored = store.open(path)
    except FileNotFoundError as error:
        raise ArchiveDamaged(
            f"{path} no longer exists: it has expired since it was listed; read again", path=path
        ) from error
    with closing(stored):
        try:
            file = pq.ParquetFile(stored, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise damaged(path, error) from error
        with file:
            yield file


def info_of(file: pq.ParquetFile, path: str) -> FileInfo:
    """Return what the footer of an open file says; ArchiveDamaged if it is not one of ours."""
    try:
        info = from_footer(file.metadata.metadata)
    except ValueError as error:
        raise damaged(path, error) from error
    if not file.schema_arrow.remove_metadata().equals(COLUMNS):
        raise damaged(path, ValueError("its columns are not those of an archive"))
    return info


def damaged(path: str, error: Exception) -> ArchiveDamaged:
    """Return the error for a file that cannot be read."""
    return ArchiveDamaged(f"{path} cannot be read: {error}", path=path)


def verify(store: Store, queue_id: int) -> Iterator[str]:
    """Yield the problems of one queue's archive; it reads every file from beginning to end."""
    files = list_files(store, queue_id)
    yield from find_breaks(files)
    before: FileInfo | None = None
    for each in files:
        try:
            info = check_file(store, each)
        except ArchiveDamaged as error:
            yield str(error)
            before = None
            continue
        if before is not None:
            if not info.identity.is_same_queue(before.identity):
                yield f"{each.path} is from another queue, or from another consumer"
            if before.end.tick == info.start.tick and before.end.time != info.start.time:
                yield f"{each.path} belongs to another history than the file before it"
        before = info


def describe_unfinished(store: Store, queue_id: int) -> list[str]:
    """Describe the incomplete files that runs have left. The next run removes them."""
    return [f"{path} is not complete: a run is active, or died" for path in
            unfinished_files(store, queue_id)]  # fmt: skip


def check_file(store: Store, file: ArchiveFile) -> FileInfo:
    """Read a file from beginning to end, and return its footer; ArchiveDamaged."""
    with open_file(store, file.path) as opened:
        info = info_of(opened, file.path)
        named = (file.from_tick, file.to_tick, file.mark)
        if named != (info.start.tick, info.end.tick, mark_of(info.end)):
            raise ArchiveDamaged(
                f"{file.path} is not the file of this name: its footer says ticks "
                f"{info.start.tick} to {info.end.tick}",
                path=file.path,
            )
        try:
            _check_rows(opened, file, info)
        except (pa.ArrowException, OSError) as error:
            raise damaged(file.path, error) from error
    return info


def _check_rows(opened: pq.ParquetFile, file: ArchiveFile, info: FileInfo) -> None:
    rows = 0
    # A file without rows has no row group: pyarrow before 19 raises an error for it.
    batches = opened.iter_batches(use_threads=False) if opened.num_row_groups else ()
    for batch in batches:
        rows += batch.num_rows
        ticks = batch["tick_id"]
        if batch.num_rows and not (
            pc.min(ticks).as_py() > info.start.tick and pc.max(ticks).as_py() <= info.end.tick
        ):
            raise damaged(file.path, ValueError("events of other ticks are in it"))
    if rows != info.events:
        raise damaged(
            file.path, ValueError(f"it has {rows} {noun(rows, 'event')}, and had {info.events}")
        )


def find_expired(store: Store, queue_id: int, older_than: timedelta) -> list[ArchiveFile]:
    """Return the files whose last tick is older, from the oldest on.

    The newest file stays whatever its age: it says where the archive ends. A file that stays keeps
    all files after it, so the rest still joins.
    """
    files = list_files(store, queue_id)
    if not files:
        return []
    try:
        limit = datetime.now(timezone.utc) - older_than
    except OverflowError:  # before the year 1
        return []
    expired = []
    for each in files[:-1]:
        if read_info(store, each.path).end.time >= limit:
            break
        expired.append(each)
    return expired


def remove(store: Store, files: Sequence[ArchiveFile]) -> None:
    """Remove files one by one: the rest joins even if the call is interrupted."""
    for each in files:
        store.remove(each.path)


TYPE = Event._fields.index("type")
LIST_ROWS, LIST_BYTES = 1000, 4 * 1024 * 1024  # one limit suffices; a larger event is alone

# Times as microseconds since 1970: psycopg knows no years before 1 or after 9999. PostgreSQL's
# last years and infinity do not fit 64 bits: the nearest number stands for them.
QUERY = sql.SQL("""
    declare {} no scroll cursor without hold for
    select ev_id,
           least(greatest(extract(epoch from ev_time) * 1000000, -9223372036854775808),
                 9223372036854775807)::bigint as ev_time,
           ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
      from ({}) event order by ev_id, ev_txid""")


def read_range(
    client: Client, queue: str, from_tick: int, to_tick: int
) -> Generator[list[Event], None, None]:
    """Yield the events after one tick, up to another, by id; times are microseconds since 1970.

    Call it inside a transaction, and read to the end there. A cursor over get_tick_events would
    make the server store all rows before it sends the first one.

    Raises NotFound, RangeExpired, DatabaseRestored, InvalidEvent.
    """
    client.connection.execute("set local enable_seqscan = off; set local jit = off")
    wanted, name = ticks.events(queue, from_tick, to_tick), read.cursor_name(to_tick)
    query = sql.SQL(client.call(calls.ticks.tick_event_sql(queue, from_tick, to_tick)))
    declare = QUERY.format(sql.Identifier(name), query)
    client.runner.read(wanted, declare, prepare=False)
    size = 1
    while some := client.runner.read(wanted, read.fetch(name, size), prepare=False):
        yield some
        largest = max(map(text_size, some)) + 1
        size = max(1, min(LIST_ROWS, 4 * size, LIST_BYTES // largest))
    client.runner.close_cursor(name)


def text_size(event: Event) -> int:
    """Return the size of an event's texts, in characters."""
    texts: tuple[str | None, ...] = event[TYPE:]  # type: ignore[assignment]  # all from there on
    return sum(len(text) for text in texts if text)


GROUP_ROWS, GROUP_BYTES = 10_000, 16 * 1024 * 1024  # which memory holds: one limit suffices
LISTED = 1000  # ticks in a footer


def write_range(
    client: Client, identity: Identity, from_tick: int, to_tick: int, spool: IO[bytes]
) -> FileInfo:
    """Write the events after one tick, up to another, to a spool; return its footer.

    The transaction that reads them ends with the call: no upload holds back vacuum or rotation.

    Raises NotFound, RangeExpired, DatabaseRestored, InvalidEvent.
    """
    events = 0
    with client.transaction():
        client.connection.execute("set transaction isolation level read committed")
        ticks = client.call(calls.ticks.get_tick_info(identity.queue, from_tick, to_tick))
        lists = read_range(client, identity.queue, from_tick, to_tick)
        with pq.ParquetWriter(
            spool, COLUMNS, compression="zstd", write_page_checksum=True
        ) as writer:
            for group in _groups(lists):
                writer.write_table(_to_table(group, ticks))
                events += len(group)
            info = FileInfo(
                identity, _tick_time(ticks[0]), _tick_time(ticks[-1]), events, _some(ticks)
            )
            writer.add_key_value_metadata(to_footer(info))
    return info


def _groups(lists: Iterable[list[Event]]) -> Iterator[list[Event]]:
    """Join lists of events to row groups, none of them empty."""
    group: list[Event] = []
    size = 0
    for some in lists:
        group += some
        size += sum(map(text_size, some))
        if len(group) >= GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _to_table(events: list[Event], ticks: list[TickInfo]) -> pa.Table:
    columns: list[Any] = list(zip(*events, strict=True))
    finder = TickFinder.between([(tick.tick_id, tick.tick_snapshot) for tick in ticks])
    columns.append(finder.find(columns[2]))
    arrays = [
        pa.array(column, pa.int64()).cast(field.type)  # of times: they are microseconds
        if pa.types.is_timestamp(field.type)
        else pa.array(column, field.type)
        for column, field in zip(columns, COLUMNS, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=COLUMNS)


def _tick_time(tick: TickInfo) -> TickTime:
    return TickTime(tick.tick_id, tick.tick_time)


def _some(ticks: list[TickInfo]) -> list[TickTime]:
    """Return some of the ticks, evenly spaced, with the last one."""
    step = -(-len(ticks) // LISTED)
    return [_tick_time(each) for each in ticks[::-1][::step]][::-1]
