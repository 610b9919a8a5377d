"""Tables of Iceberg: commits with `pyiceberg`, without a jar."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import index_by_id, index_by_name
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, TimestampType, TimestamptzType
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pgqpy.pipeline.options import refused
from pgqpy.pipeline.tables import CommitConflict, DataFile, LakeTable, opening
from pgqpy.spark.options import Offset

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.fs as pafs
    from pyiceberg.table import Table, Transaction
    from pyspark.sql.types import StructType

    from pgqpy.pipeline.options import PipelineOptions

NARROW_INTEGERS = False  # INT is the smallest type of the format
NAMESPACE = "queues"  # of the catalog that --to PATH makes
CATALOG = "catalog.db"
MAIN = "main"  # the branch
RETRIES = "commit.retry.num-retries"
METRICS = "write.metadata.metrics.column."
TIMES = (DateType, TimestampType, TimestamptzType)


class Iceberg(LakeTable):
    """A table of Iceberg. The offsets are a property: snapshots expire, with their summaries."""

    drops_partition_columns: ClassVar[bool] = False  # add_files reads them from the files

    def __init__(self, table: Table, consumer: str) -> None:
        self._table = table
        self.name = ".".join(table.name())
        self._consumer = consumer
        self._property = f"pgqpy-offsets.{consumer}"
        self.location = re.sub(r"^s3://", "s3a://", table.location())  # as Spark calls it
        self.partition_by = tuple(_partition_columns(table))

    def files(self) -> tuple[pafs.FileSystem, str]:
        """Return the table's file system, and its location there."""
        scheme, netloc, path = PyArrowFileIO.parse_location(self._table.location())
        io = PyArrowFileIO(self._table.io.properties)
        return io.fs_by_scheme(scheme, netloc), f"{path.rstrip('/')}/"

    def columns(self) -> StructType:
        """Return the table's columns."""
        kept = schema_to_pyarrow(self._table.schema(), include_field_ids=False)
        return from_arrow_schema(kept)

    def add_columns(self, columns: StructType) -> None:
        """Add columns to the table."""
        with self._table.update_schema() as update:
            update.union_by_name(to_arrow_schema(columns, timezone="UTC"))

    def offsets(self) -> dict[int, Offset]:
        """Return the offsets of the newest version, by queue id; none of another consumer."""
        self._table.refresh()
        written = json.loads(self._table.properties.get(self._property, "[]"))
        return {each["queue_id"]: Offset(**each) for each in written}

    def add(self, files: list[DataFile], ends: Mapping[int, Offset]) -> None:
        """Commit files and the offsets to the version that `offsets` returned."""
        offset = {self._property: json.dumps([each._asdict() for each in ends.values()])}
        try:
            if files:
                self._add_files(files, offset)
            else:
                self._set_properties(offset)
        except CommitFailedException as exc:
            raise CommitConflict(f"the commit failed: {exc}") from exc

    def named_files(self) -> set[str]:
        """Return the paths, from the location, of all files that a retained commit names."""
        self._table.refresh()  # others may have committed since it was opened
        root = f"{self._table.location()}/"
        paths = self._table.inspect.all_files().column("file_path").to_pylist()
        return {path.removeprefix(root) for path in paths}

    def _add_files(self, files: list[DataFile], offset: dict[str, str]) -> None:
        # pyiceberg would repeat a failed commit on the newest snapshot, whatever its offset is, and
        # so add the events twice. It reads from here how often; nobody else sees the change.
        self._table.metadata.properties[RETRIES] = "0"
        paths = [f"{self._table.location()}/{file.path}" for file in files]
        try:
            transaction = self._adding(paths, offset)
        except OverflowError:  # a time that Python does not know: go without the limits of times
            self._table.metadata.properties.update(self._without_limits())
            transaction = self._adding(paths, offset)
        transaction.commit_transaction()

    def _adding(self, paths: list[str], offset: dict[str, str]) -> Transaction:
        transaction = self._table.transaction()
        transaction.set_properties(offset)
        transaction.add_files(paths, snapshot_properties=offset, check_duplicate_files=False)
        return transaction

    def _set_properties(self, offset: dict[str, str]) -> None:
        """Move the offset without a snapshot, if no snapshot was added meanwhile."""
        snapshot = self._table.current_snapshot()
        at = AssertRefSnapshotId.model_validate(
            {"ref": MAIN, "snapshot-id": snapshot and snapshot.snapshot_id}
        )
        same = AssertTableUUID(uuid=self._table.metadata.table_uuid)
        update = SetPropertiesUpdate(updates=offset)
        self._table.catalog.commit_table(self._table, (at, same), (update,))

    def _without_limits(self) -> dict[str, str]:
        fields, names = index_by_id(self._table.schema()), index_by_name(self._table.schema())
        times = [
            name for name, number in names.items() if isinstance(fields[number].field_type, TIMES)
        ]
        return {f"{METRICS}{name}": "counts" for name in times if name not in self.partition_by}


def find(options: PipelineOptions) -> Iceberg | None:
    """Return the table that the options name; None if there is none.

    Raises:
        InvalidArgument: the folder holds something else, or the catalog cannot be reached.
    """
    catalog, name = _catalog(options)
    try:
        return Iceberg(catalog.load_table(name), options.consumer)
    except NoSuchTableError:
        pass
    for other in find_all(options) if options.catalog is None else ():
        if other.offsets():  # else this one would begin anew beside it
            why = f"has the table {other.name} of consumer {options.consumer!r}, for other queues"
            raise refused("to", f"{options.to} {why}: name its queues, or another --consumer")
    return None


def find_all(options: PipelineOptions) -> list[Iceberg]:
    """Return the table that the options name; without a catalog's name, all of the folder's."""
    if options.catalog is not None:
        found = find(options)
        return [] if found is None else [found]
    if options.to is None or not (Path(options.to) / CATALOG).exists():
        return []
    catalog = _own_catalog(options.to)
    names = catalog.list_tables(NAMESPACE) if catalog.namespace_exists(NAMESPACE) else []
    return [Iceberg(catalog.load_table(name), options.consumer) for name in names]


def create(options: PipelineOptions, columns: StructType, by: tuple[str, ...]) -> Iceberg:
    """Create the table that the options name."""
    catalog, name = _catalog(options)
    catalog.create_namespace_if_not_exists(name[:-1])
    schema = to_arrow_schema(columns, timezone="UTC")
    transaction = catalog.create_table_transaction(name, schema=schema)
    known = suppress(CommitFailedException, TableAlreadyExistsError)  # it is another pipeline's
    with known, transaction, transaction.update_spec() as spec:
        for column in by:
            spec.add_identity(column)
    return Iceberg(catalog.load_table(name), options.consumer)


def _catalog(options: PipelineOptions) -> tuple[Catalog, tuple[str, ...]]:
    """Return the catalog, and the table's name in it."""
    assert options.to is not None  # noqa: S101  # the command line has checked it
    if options.catalog is None:
        return _own_catalog(options.to), (NAMESPACE, table_name(options.queue))
    name = tuple(options.to.split("."))
    if len(name) < 2:  # noqa: PLR2004  # a namespace and a name
        raise refused("to", f"{options.to} is no table of a catalog: write namespace.table")
    try:
        catalog = load_catalog(options.catalog)
        catalog.table_exists(name)
    except Exception as exc:
        why = " ".join(str(exc).split()) or type(exc).__name__
        raise refused("catalog", f"{options.catalog} cannot be reached: {why}") from exc
    return catalog, name


def _own_catalog(to: str) -> SqlCatalog:
    """Return the catalog in a folder; it is created in an empty one."""
    if "://" in to:
        why = "is no folder of this machine: name a --catalog, and --to namespace.table"
        raise refused("to", f"{to} {why}")
    folder = Path(to).absolute()
    there = [] if (folder / CATALOG).exists() else folder.glob("[!_]*")  # not _bad, _schema.ddl
    if any(there):
        why = f"has files, but no {CATALOG} of Iceberg: name an empty folder, or the right --format"
        raise refused("to", f"{to} {why}")
    with opening(to, OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return SqlCatalog("default", uri=f"sqlite:///{folder / CATALOG}", warehouse=f"file://{folder}")


def table_name(queue: str) -> str:
    """Return the name of a queue's table: letters, digits and underscores."""
    return re.sub(r"\W", "_", queue)


def _partition_columns(table: Table) -> list[str]:
    found = []
    for field in table.spec().fields:
        name = table.schema().find_column_name(field.source_id)
        if not isinstance(field.transform, IdentityTransform) or name is None:
            why = "the pipeline writes only to tables that are partitioned by columns as they are"
            raise refused("to", f"the table is partitioned by {field.transform} of {name}: {why}")
        found.append(name)
    return found
