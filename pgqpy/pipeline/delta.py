"""Tables of Delta Lake: commits with `deltalake`, without a jar."""

from __future__ import annotations

import json
import math
import re
import uuid
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql.types import StructType

from pgqpy.pipeline.options import refused
from pgqpy.pipeline.tables import CommitConflict, DataFile, LakeTable, opening
from pgqpy.spark.options import Offset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgqpy.pipeline.options import PipelineOptions

NARROW_INTEGERS = True  # TINYINT and SMALLINT are types of the format
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
PREFIX = 32  # characters of a text in the statistics
LAST_CHARACTER = "\U0010ffff"  # after a prefix, for the rest: no character, so no text has it
# Features that check or change rows. Files are added as they are, so they would evade these.
FORBIDDEN = ("delta.constraints.", "delta.columnMapping.mode")
FORBIDDEN_OF_COLUMNS = ("delta.invariants", "delta.generationExpression", "delta.identity.")


class DeltaLake(LakeTable):
    """A table of Delta Lake.

    The offsets are in application transactions: they outlive the cleanup of the log, and two
    commits of the same application exclude each other. They are numbers, so they form a list:
    `pgqpy:<consumer>` is the first queue's id, `pgqpy:<consumer>:<queue id>` its tick, and the same
    with `:time` the tick's time, as microseconds, with `:next` the next queue's id, or 0.
    """

    drops_partition_columns: ClassVar[bool] = True

    def __init__(self, table: DeltaTable, options: PipelineOptions) -> None:
        self._table = table
        self._consumer = options.consumer
        self._place, self.location = _places(options)
        self.partition_by = tuple(table.metadata().partition_columns)

    def files(self) -> tuple[pafs.FileSystem, str]:
        """Return the table's file system, and its location there."""
        return _files(self._place)

    def columns(self) -> StructType:
        """Return the table's columns."""
        return StructType.fromJson(json.loads(self._table.schema().to_json()))

    def add_columns(self, columns: StructType) -> None:
        """Add columns to the table."""
        self._table.alter.add_columns(list(_schema(columns).fields))

    def offsets(self) -> dict[int, Offset]:
        """Return the offsets of the newest version, by queue id; none of another consumer."""
        self._table.update_incremental()
        app = f"pgqpy:{quote(self._consumer, safe='')}"
        version = self._table.transaction_version
        found = {}
        queue_id = version(app)
        while queue_id:
            name = f"{app}:{queue_id}"
            time = EPOCH + (version(f"{name}:time") or 0) * MICROSECOND
            text = time.isoformat(timespec="microseconds").replace("+00:00", "Z")
            found[queue_id] = Offset(self._consumer, queue_id, version(name) or 0, text)
            queue_id = version(f"{name}:next")
        return found

    def add(self, files: list[DataFile], ends: Mapping[int, Offset]) -> None:
        """Commit files and the offsets to the version that `offsets` returned."""
        app = f"pgqpy:{quote(self._consumer, safe='')}"
        versions = {app: next(iter(ends))}
        for end, after in zip(ends.values(), [*list(ends)[1:], 0], strict=True):
            name = f"{app}:{end.queue_id}"
            time = datetime.fromisoformat(end.time.replace("Z", "+00:00")) - EPOCH
            versions |= {name: end.tick, f"{name}:time": time // MICROSECOND, f"{name}:next": after}
        properties = CommitProperties(
            custom_metadata={"pgqpy-offsets": [end._asdict() for end in ends.values()]},
            app_transactions=[Transaction(name, number) for name, number in versions.items()],
        )
        actions: list[AddAction | RemoveAction] = [self._action(file) for file in files]
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                list(self.partition_by),
                commit_properties=properties,
            )
        except CommitFailedError as exc:
            raise CommitConflict(f"the commit failed: {exc}") from exc

    def named_files(self) -> set[str]:
        """Return the paths, from the location, of all files that a retained commit names."""
        files, root = self.files()
        named: set[str] = set()
        chosen = pafs.FileSelector(f"{root}_delta_log", recursive=True)
        for info in files.get_file_info(chosen):
            with files.open_input_file(info.path) as file:
                if info.path.endswith(".json"):
                    actions = [json.loads(line) for line in file.read().splitlines()]
                elif info.path.endswith(".parquet"):  # a checkpoint, or a part of one
                    actions = pq.read_table(file, columns=["add.path", "remove.path"]).to_pylist()
                else:
                    continue
            for action in actions:
                both = (action.get("add"), action.get("remove"))
                named |= {unquote(each["path"]) for each in both if each and each.get("path")}
        return named

    @staticmethod
    def _action(file: DataFile) -> AddAction:
        modified = int(file.modified.timestamp() * 1000)
        stats = statistics(file.footer)
        return AddAction(
            file.path, file.size, file.partition, modified, data_change=True, stats=stats
        )


def find(options: PipelineOptions) -> DeltaLake | None:
    """Return the table that the options name; None for an empty folder.

    Raises:
        InvalidArgument: the folder holds something else, or the table does more than keep rows.
    """
    place, _ = _places(options)
    with opening(options.to, DeltaError, OSError):
        is_table = DeltaTable.is_deltatable(place)
        files, root = _files(place)
        there = files.get_file_info(pafs.FileSelector(root, allow_not_found=True))
    if not is_table:
        if not all(info.base_name.startswith("_") for info in there):  # _bad, _schema.ddl
            why = "has files, but is no Delta table: name an empty folder, or the right --format"
            raise refused("to", f"{options.to} {why}")
        return None
    with opening(options.to, DeltaError, OSError):
        table = DeltaTable(place)
    _check_features(table)
    return DeltaLake(table, options)


def find_all(options: PipelineOptions) -> list[DeltaLake]:
    """Return the table that the options name, if there is one."""
    found = find(options)
    return [] if found is None else [found]


def create(options: PipelineOptions, columns: StructType, by: tuple[str, ...]) -> DeltaLake:
    """Create the table that the options name."""
    place, _ = _places(options)
    with opening(options.to, DeltaError, OSError):
        DeltaTable.create(place, _schema(columns), mode="ignore", partition_by=list(by))
        return DeltaLake(DeltaTable(place), options)


def statistics(footer: pq.FileMetaData) -> str:
    """Return the statistics of a file, from its footer, as Delta Lake's log writes them.

    A reader passes over files whose limits exclude what it looks for. Where one file of a table has
    limits of a column and another has none, deltalake passes over the other. So a type has limits
    in every file, or in none.
    """
    number = uuid.uuid4().hex  # marks one that JSON holds, and Python does not write
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for place, name, kind in _flat(footer):
        chunks = [footer.row_group(group).column(place) for group in range(footer.num_row_groups)]
        stats = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
        if len(stats) == len(chunks) and all(each.has_null_count for each in stats):
            nulls[name] = sum(each.null_count for each in stats)
        if nulls.get(name) == footer.num_rows:
            continue  # a comparison finds nothing there
        limits = _limits(kind, *_extremes(chunks), number)
        if limits is not None:
            least[name], most[name] = limits
    found = {"numRecords": footer.num_rows, "minValues": least, "maxValues": most}
    text = json.dumps({**found, "nullCount": nulls})
    return re.sub(f'"{number}([-.0-9e]+)"', r"\1", text)


def _flat(footer: pq.FileMetaData) -> list[tuple[int, str, pa.DataType]]:
    """Return number, name and type of the file's columns that are not inside a nested type."""
    kinds = {field.name: field.type for field in footer.schema.to_arrow_schema()}
    columns = [footer.schema.column(number) for number in range(footer.num_columns)]
    return [
        (number, column.path, kinds[column.path])
        for number, column in enumerate(columns)
        if column.max_definition_level == 1  # all columns may be null, and nothing else may be
    ]


def _extremes(chunks: list[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest value; None where the footer or Python cannot tell."""
    stats = [chunk.statistics for chunk in chunks if chunk.is_stats_set]
    filled = [each for each in stats if each.has_min_max]
    empty = [each for each in stats if not each.has_min_max and not each.num_values]
    if not filled or len(filled) + len(empty) < len(chunks):
        return None, None
    try:
        return min(each.min for each in filled), max(each.max for each in filled)
    except (OverflowError, ValueError):  # a time that Python does not know
        return None, None


def _limits(kind: pa.DataType, low: Any, high: Any, number: str) -> tuple[Any, Any] | None:
    """Return limits of values of a type; None for a type that has none."""
    if pa.types.is_string(kind):
        low, high = low or "", high or LAST_CHARACTER
        return low[:PREFIX], high if len(high) <= PREFIX else high[:PREFIX] + LAST_CHARACTER
    if pa.types.is_date(kind):
        return (low or date.min).isoformat(), (high or date.max).isoformat()
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        times = (low or datetime.min, high or datetime.max)  # noqa: DTZ901  # in UTC, as all are
        first, last = (each.replace(tzinfo=None).isoformat("T", "microseconds") for each in times)
        return f"{first}{zone}", f"{last}{zone}"
    if pa.types.is_floating(kind):
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        return _json_float(low, number), _json_float(high, number)
    if pa.types.is_decimal(kind) and low is not None:
        return f"{number}{low:f}", f"{number}{high:f}"
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return (low, high) if whole and low is not None else None


def _json_float(value: float, number: str) -> float | str:
    """Return what JSON can hold: 1e999 is read as infinity."""
    return value if math.isfinite(value) else f"{number}{math.copysign(1, value):.0f}e999"


def _schema(columns: StructType) -> Schema:
    return Schema.from_json(columns.json())  # Delta Lake's notation is Spark's


def _check_features(table: DeltaTable) -> None:
    """Raise InvalidArgument if the table has a feature that added files would evade."""
    of_columns = [name for field in table.schema().fields for name in field.metadata]
    names = [name for name in table.metadata().configuration if name.startswith(FORBIDDEN)]
    names += [name for name in of_columns if name.startswith(FORBIDDEN_OF_COLUMNS)]
    if names:
        why = "which files that are added pass by: name a table without it"
        raise refused("to", f"the table has {names[0]}, {why}")


def _files(place: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a table, and the table's folder there."""
    if "://" in place:
        return pafs.PyFileSystem(DeltaStorageHandler(place)), ""
    return pafs.LocalFileSystem(), f"{place}/"


def _places(options: PipelineOptions) -> tuple[str, str]:
    """Return the table's place for deltalake, and for Spark, whose default may not be local."""
    assert options.to is not None  # noqa: S101  # the command line has checked it
    if "://" in options.to:
        return options.to.rstrip("/"), options.to.rstrip("/")
    path = str(Path(options.to).absolute())
    return path, f"file:{path}"
