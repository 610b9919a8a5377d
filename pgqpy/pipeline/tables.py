"""Tables of Delta Lake and Iceberg: what both share.

The table is the only memory of its pipeline. Each micro-batch is one commit, which adds the files
and moves the offset. Two things would break that:

- A commit on another offset than the micro-batch began at adds events twice. So each attempt looks
  at the newest version first, and the library refuses the commit if that version is not the last.
- A subscription beyond the table's offset lets maintenance remove events, or the tick itself, that
  a restart needs. So a micro-batch without events moves the offset too.
"""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from urllib.parse import unquote

import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it
from pyspark.sql import types

from pgqpy.errors import PgqError
from pgqpy.pipeline.options import refused
from pgqpy.texts import noun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pgqpy.spark.options import Offset

OURS = re.compile(r"pgqpy-\d+-\d+-[0-9a-f]{32}/")  # a folder of one attempt
READERS = 8  # threads that read footers
ATTEMPTS = 10  # of a commit, while others write to the table
NULL = "__HIVE_DEFAULT_PARTITION__"  # Spark's name for the folder of null
FOLDER_BY = "by_"  # before a column: the copy that folders are named after
DIVIDING = re.compile(r"string|boolean|tinyint|smallint|int|bigint|date")
NARROW = (types.ByteType, types.ShortType)
KEPT = (  # types that both formats have
    types.BinaryType,
    types.BooleanType,
    types.DateType,
    types.DecimalType,
    types.DoubleType,
    types.FloatType,
    types.IntegerType,
    types.LongType,
    types.StringType,
    types.TimestampNTZType,
    types.TimestampType,
)


class OffsetMoved(PgqError):
    """Another pipeline of this consumer has written to the table. This one has added nothing."""


class CommitConflict(PgqError):
    """Another writer has changed the table during the commit."""


class FilesGone(PgqError):
    """Files of a micro-batch were removed before they were committed."""


class DataFile(NamedTuple):
    """A file that Spark wrote: its path from the table's location, and the values of its folder."""

    path: str
    size: int  # bytes
    modified: datetime
    partition: dict[str, str | None]
    footer: pq.FileMetaData


class LakeTable(ABC):
    """A table, and the offsets that it keeps for a consumer, one for each queue.

    Attributes:
        location: where Spark writes files, as Spark understands it.
        partition_by: the columns that divide the table into folders.
    """

    drops_partition_columns: ClassVar[bool]  # from the files
    location: str
    partition_by: tuple[str, ...]

    @abstractmethod
    def files(self) -> tuple[pafs.FileSystem, str]:
        """Return the table's file system, and its location there."""

    @abstractmethod
    def columns(self) -> StructType:
        """Return the table's columns."""

    @abstractmethod
    def add_columns(self, columns: StructType) -> None:
        """Add columns to the table."""

    @abstractmethod
    def offsets(self) -> dict[int, Offset]:
        """Return the offsets of the newest version, by queue id; none of another consumer."""

    @abstractmethod
    def add(self, files: list[DataFile], ends: Mapping[int, Offset]) -> None:
        """Commit files and the offsets to the version that `offsets` returned.

        Raises:
            CommitConflict: that is not the newest version any more.
        """

    @abstractmethod
    def named_files(self) -> set[str]:
        """Return the paths, from the location, of all files that a retained commit names."""

    def new_folder(self, starts: Mapping[int, Offset], ends: Mapping[int, Offset]) -> str:
        """Return a name for the folder of one attempt to write the events between offsets."""
        return f"pgqpy-{total(starts)}-{total(ends)}-{uuid.uuid4().hex}"

    def save(self, records: DataFrame, folder: str) -> None:
        """Write records to files that belong to nothing yet."""
        divided = list(self.partition_by)
        if not self.drops_partition_columns:
            divided = [f"{FOLDER_BY}{name}" for name in self.partition_by]
            for name, copy in zip(self.partition_by, divided, strict=True):
                records = records.withColumn(copy, _folder_name(name))
        # _SUCCESS would be a file that no commit names.
        writer = records.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*divided).parquet(f"{self.location}/{folder}")

    def commit(
        self,
        folder: str | None,
        starts: Mapping[int, Offset],
        ends: Mapping[int, Offset],
        *,
        rows: int = 0,
    ) -> None:
        """Add the files of a folder in one commit that moves the offsets from `starts` to `ends`.

        A commit that was made already, and whose answer was lost, is not made again.

        Raises:
            FilesGone: the files do not hold so many rows.
            OffsetMoved: the table has other offsets.
            CommitConflict: others have changed the table during each of `ATTEMPTS` attempts.
        """
        files = [] if folder is None else self._list(folder)
        found_rows = sum(file.footer.num_rows for file in files)
        if found_rows != rows:
            raise FilesGone(
                f"the files of this micro-batch hold {found_rows:,} of its {rows:,} records: "
                "somebody removes files of the table that are new. Let `pgqpy pipeline clean` keep "
                "what is younger than a micro-batch takes (--older-than), and start again"
            )
        for attempt in range(1, ATTEMPTS + 1):
            found = self.offsets()
            if found == ends:
                return
            if found != starts:
                consumer = next(iter(ends.values())).consumer
                raise OffsetMoved(
                    f"consumer {consumer!r}: the table is at {_ticks(found)}, not at "
                    f"{_ticks(starts)}, where this micro-batch began: another pipeline of this "
                    "consumer writes to the table. Stop one of them, and start again"
                )
            try:
                self.add(files, ends)
            except CommitConflict:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _list(self, folder: str) -> list[DataFile]:
        files, root = self.files()

        def look(info: pafs.FileInfo) -> DataFile:
            path = info.path.removeprefix(root)
            with files.open_input_file(info.path) as opened:
                footer = pq.read_metadata(opened)
            return DataFile(path, info.size, info.mtime, _partition(path), footer)

        found = _find(files, f"{root}{folder}")
        parts = [info for info in found if info.base_name.startswith("part-")]  # else checksums
        with ThreadPoolExecutor(READERS) as threads:
            return list(threads.map(look, parts))


def _find(files: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
    chosen = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
    return [info for info in files.get_file_info(chosen) if info.type == pafs.FileType.File]


def _partition(path: str) -> dict[str, str | None]:
    """Return the values in a path such as `…/day=2026-12-01/part-1.parquet`."""
    pairs = (part.partition("=") for part in path.split("/")[1:-1])
    return {unquote(name): None if value == NULL else unquote(value) for name, _, value in pairs}


def _folder_name(column: str) -> Column:
    """Return a name for the folder of a value. An empty text and null have two folders."""
    text = F.col(f"`{column}`").cast("string")
    return F.coalesce(F.concat(F.lit("is "), text), F.lit("null"))


def total(offsets: Mapping[int, Offset]) -> int:
    """Return the sum of the ticks: a number that grows with each micro-batch that has events."""
    return sum(each.tick for each in offsets.values())


def _ticks(offsets: Mapping[int, Offset]) -> str:
    ticks = ", ".join(str(each.tick) for each in offsets.values())
    return f"{noun(len(offsets), 'tick')} {ticks}" if offsets else "no tick"


def check_columns(table: LakeTable, wanted: StructType, *, evolve: bool) -> None:
    """Compare the columns of a table with the pipeline's, and add missing ones if `evolve`.

    Raises:
        InvalidArgument: they do not fit.
    """
    have = {field.name.lower(): field for field in table.columns()}
    missing = [field for field in wanted if field.name.lower() not in have]
    for field in wanted:
        found = have.get(field.name.lower(), field)
        if found.name != field.name:
            raise refused("schema", f"column {field.name} is {found.name} in the table")
        kind, kept = (each.dataType.simpleString().upper() for each in (field, found))
        if kind != kept:
            raise refused("schema", f"column {field.name} is {kind}, and {kept} in the table")
    required = [field.name for field in have.values() if not field.nullable]
    if required:
        raise refused("to", f"column {required[0]} of the table is NOT NULL: allow null")
    if missing and not evolve:
        names = ", ".join(field.name for field in missing)
        raise refused("schema", f"the table lacks {names}: --evolve add adds columns")
    if missing:
        table.add_columns(types.StructType(missing))


def storable(columns: StructType, table_format: str, *, narrow: bool) -> StructType:
    """Return the columns as a table keeps them: all may be null.

    Args:
        columns: of the records.
        table_format: for the error message.
        narrow: the format has types for TINYINT and SMALLINT.

    Raises:
        InvalidArgument: the format has no type for a column.
    """
    try:
        return types.StructType(
            [
                types.StructField(each.name, _kept(each.dataType, each.name, narrow))
                for each in columns
            ]
        )
    except TypeError as exc:
        raise refused("schema", f"{table_format} has no type for {exc}") from None


def _kept(kind: types.DataType, name: str, narrow: bool) -> types.DataType:  # noqa: FBT001  # passed on
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(_kept(kind.elementType, name, narrow))
    if isinstance(kind, types.MapType):
        key, value = (_kept(each, name, narrow) for each in (kind.keyType, kind.valueType))
        return types.MapType(key, value)
    if isinstance(kind, types.StructType):
        fields = ((each.name, _kept(each.dataType, name, narrow)) for each in kind)
        return types.StructType([types.StructField(*each) for each in fields])
    if isinstance(kind, NARROW):
        return kind if narrow else types.IntegerType()
    if isinstance(kind, KEPT):
        return kind
    raise TypeError(f"{name} {kind.simpleString().upper()}")


def check_partition(columns: StructType, names: Sequence[str]) -> None:
    """Raise InvalidArgument unless the columns can divide a table into folders."""
    kinds = {field.name: field.dataType.simpleString() for field in columns}
    for name in names:
        if name not in kinds:
            why = f"there is no column {name}: name day, or one of {', '.join(kinds)}"
            raise refused("partition-by", why)
        if not DIVIDING.fullmatch(kinds[name]):
            why = "only texts, whole numbers, dates and booleans divide a table"
            raise refused("partition-by", f"{name} is {kinds[name].upper()}: {why}")


@contextmanager
def opening(to: str | None, *errors: type[Exception]) -> Iterator[None]:
    """Raise errors of a library as InvalidArgument, in one line."""
    try:
        yield
    except errors as exc:
        why = " ".join(str(exc).split()) or type(exc).__name__
        raise refused("to", f"{to} cannot be opened: {why}") from exc


class Orphans(NamedTuple):
    """Files that no commit names: their number and bytes."""

    files: int
    size: int


def clean(table: LakeTable, older_than: timedelta, *, dry_run: bool) -> Orphans:
    """Remove the files that pipelines have written, that no commit names, and that are old.

    Args:
        table: any table.
        older_than: a running micro-batch may still commit younger ones.
        dry_run: only count them.
    """
    files, root = table.files()
    before = datetime.now(timezone.utc) - older_than
    found = _find(files, root)  # before the commits: a file that is committed meanwhile is named
    named = table.named_files()
    orphans = []
    for info in found:
        path = info.path.removeprefix(root)
        folder, _, name = path.rpartition("/")
        about = re.sub(r"^\.(.*)\.crc$", r"\1", name)  # a checksum goes with its file
        if OURS.match(path) and f"{folder}/{about}" not in named and info.mtime < before:
            orphans.append(info)
    if not dry_run:
        for info in orphans:
            files.delete_file(info.path)
        _remove_empty(files, root, found, orphans)
    return Orphans(len(orphans), sum(info.size for info in orphans))


def _remove_empty(
    files: pafs.FileSystem, root: str, found: list[pafs.FileInfo], removed: list[pafs.FileInfo]
) -> None:
    """Remove the folders of attempts that have no file any more. An object store has none."""
    gone = {info.path for info in removed}
    left = {
        info.path.removeprefix(root).partition("/")[0] for info in found if info.path not in gone
    }
    for name in {path.removeprefix(root).partition("/")[0] for path in gone} - left:
        with suppress(NotImplementedError):
            files.delete_dir(f"{root}{name}")
