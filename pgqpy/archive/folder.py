"""What a location holds: the archive of each queue, its files in order, and their footers."""

from __future__ import annotations

import itertools
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pgqpy.archive.errors import ArchiveDamaged, ArchiveMismatch
from pgqpy.archive.file_format import COLUMNS, UNFINISHED, FileInfo, from_footer, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgqpy.archive.file_format import ArchiveFile, Identity
    from pgqpy.archive.store import Store


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
                    f"{problem}: pgqpy archive verify lists all problems", queue=queue
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
