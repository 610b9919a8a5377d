"""The files of an archive: names, columns and footers, and what a location holds."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pgqpy.archive.errors import ArchiveDamaged, ArchiveMismatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgqpy.archive.store import Store

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
