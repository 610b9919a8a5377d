"""The files of an archive: names, columns, and what the footer says. Without I/O."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pyarrow as pa

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
