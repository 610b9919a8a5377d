"""The check of an archive, and the removal of its oldest files."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pgqpy.archive.errors import ArchiveDamaged
from pgqpy.archive.files import (
    damaged,
    find_breaks,
    info_of,
    list_files,
    mark_of,
    open_file,
    read_info,
    unfinished_files,
)
from pgqpy.texts import noun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    import pyarrow.parquet as pq

    from pgqpy.archive.files import ArchiveFile, FileInfo
    from pgqpy.archive.store import Store


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
