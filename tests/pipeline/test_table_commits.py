"""Commits to tables of Delta Lake and Iceberg, without Spark: what adds nothing twice."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pgqpy.errors import InvalidArgument
from pgqpy.pipeline.options import PipelineOptions
from pgqpy.pipeline.tables import (
    CommitConflict,
    FilesGone,
    OffsetMoved,
    check_columns,
    clean,
    storable,
)
from pgqpy.spark.options import Offset

if TYPE_CHECKING:
    from pgqpy.pipeline.tables import LakeTable

N = StructField("n", LongType())
NOW = timedelta(0)
KINDS = {
    "n": LongType(),
    "i": types.ShortType(),
    "d": types.DecimalType(10, 2),
    "t": types.TimestampType(),
    "z": types.TimestampNTZType(),
    "s": StructType([StructField("a", types.ArrayType(types.DateType()))]),
    "m": types.MapType(StringType(), types.FloatType()),
    "y": types.BinaryType(),
    "o": types.BooleanType(),
}


def at(tick: int) -> dict[int, Offset]:
    """Return the offsets of three queues."""
    time = f"2026-12-01T00:00:{tick:02d}.000001Z"
    return {queue: Offset("pipeline", queue, tick, time) for queue in (4, 7, 9)}


class Place:
    """A folder with a table, opened as each of several pipelines opens it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.module = import_module(f"pgqpy.pipeline.{kind}")
        self.kind, self.folder = kind, folder

    def open(self, consumer: str = "pipeline") -> Any:
        """Open the table; create it first if there is none."""
        options = PipelineOptions(queue="q", to=str(self.folder), consumer=consumer)
        found = self.module.find(options)
        return found or self.module.create(options, StructType([N]), ())

    def write(self, table: LakeTable, *numbers: int) -> str:
        """Write a file as Spark does; return its folder."""
        name = table.new_folder(at(1), at(2))
        folder = Path(table.location.removeprefix("file:").removeprefix("//"), name)
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), folder / "part-0.parquet")
        (folder / ".part-0.parquet.crc").touch()
        return name

    def rows(self) -> list[int]:
        """Return the numbers in the table."""
        found = read(self)  # noqa: F841  # DuckDB finds it by its name
        return [n for (n,) in duckdb.sql("select n from found order by n").fetchall()]  # type: ignore[union-attr]  # a query


def read(place: Place) -> pa.Table:
    """Read the newest version."""
    table = place.open()._table
    return table.to_pyarrow_table() if place.kind == "delta" else table.scan().to_arrow()


def others_commit(place: Place) -> None:
    """Rewrite the table's files in a commit of another writer."""
    table = place.open()._table
    if place.kind == "delta":
        table.optimize.compact()
    else:
        table.overwrite(table.scan().to_arrow())


@pytest.fixture(params=["delta", "iceberg"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "lake")


def test_a_commit_adds_files_and_moves_the_offset_and_its_repetition_does_nothing(
    place: Place,
) -> None:
    table = place.open()
    assert table.offsets() == {}
    table.commit(None, {}, at(1))
    first = place.write(table, 1, 2)
    table.commit(first, at(1), at(2), rows=2)
    place.open().commit(first, at(1), at(2), rows=2)
    table.commit(None, at(2), at(3))
    assert place.open().offsets() == at(3)
    assert place.rows() == [1, 2]
    assert place.open("another").offsets() == {}


@pytest.mark.parametrize("added", [True, False])
def test_of_two_pipelines_of_one_name_one_adds_nothing(place: Place, added: bool) -> None:
    slow, fast = place.open(), place.open()
    fast.commit(None, {}, at(1))
    slow.offsets()
    fast.commit(place.write(fast, 1), at(1), at(2), rows=1)
    with pytest.raises(CommitConflict):
        slow.add(slow._list(place.write(slow, 1)) if added else [], at(3))
    with pytest.raises(OffsetMoved, match="at ticks 2, 2, 2, not at ticks 1, 1, 1,"):
        slow.commit(place.write(slow, 1), at(1), at(3), rows=1)
    assert place.rows() == [1]
    assert place.open().offsets() == at(2)


def test_a_commit_of_another_writer_in_between_does_not_stop_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.open()
    table.commit(None, {}, at(1))
    for start, number in enumerate((1, 2), 1):
        table.commit(place.write(table, number), at(start), at(start + 1), rows=1)
    real = table.offsets

    def offsets() -> dict[int, Offset]:
        found = real()
        monkeypatch.undo()
        others_commit(place)
        return found

    monkeypatch.setattr(table, "offsets", offsets)
    table.commit(place.write(table, 3), at(3), at(4), rows=1)
    assert place.rows() == [1, 2, 3]
    assert place.open().offsets() == at(4)


def test_files_that_are_gone_are_not_committed(place: Place) -> None:
    table = place.open()
    table.commit(None, {}, at(1))
    folder = place.write(table, 1, 2)
    clean(table, timedelta(0), dry_run=False)
    with pytest.raises(FilesGone, match="hold 0 of its 2 records"):
        table.commit(folder, at(1), at(2), rows=2)
    assert table.offsets() == at(1)


def test_clean_sees_what_others_committed_since_the_table_was_opened(place: Place) -> None:
    place.open().commit(None, {}, at(1))
    opened, other = place.open(), place.open()
    other.commit(place.write(other, 1), at(1), at(2), rows=1)
    assert clean(opened, timedelta(0), dry_run=False).files == 0
    assert place.rows() == [1]


def test_table_that_another_pipeline_creates_meanwhile_is_taken_as_it_is(place: Place) -> None:
    place.open()
    options = PipelineOptions(queue="q", to=str(place.folder))
    other = StructType([StructField("other", StringType())])
    assert place.module.create(options, other, ("other",)).columns().names == ["n"]


def test_the_offset_outlives_the_logs_and_snapshots_of_its_commit(place: Place) -> None:
    table = place.open()
    table.commit(None, {}, at(1))
    table.commit(place.write(table, 1), at(1), at(2), rows=1)
    others_commit(place)
    own = place.open()._table
    if place.kind == "delta":
        own.create_checkpoint()
        for log in (place.folder / "_delta_log").glob("*.json"):
            log.unlink()
    else:
        newest = own.current_snapshot().snapshot_id
        old = [each.snapshot_id for each in own.snapshots() if each.snapshot_id != newest]
        own.maintenance.expire_snapshots().by_ids(old).commit()
    assert place.open().offsets() == at(2)


def test_files_that_no_commit_names_are_removed_when_they_are_old(place: Place) -> None:
    table = place.open()
    table.commit(None, {}, at(1))
    for start, number in enumerate((1, 2), 1):
        table.commit(place.write(table, number), at(start), at(start + 1), rows=1)
    if place.kind == "delta":
        table._table.create_checkpoint()
    others_commit(place)  # the files of both commits are named by old versions only
    orphan = place.write(table, 3)
    (other,) = place.folder.rglob(orphan)
    (other.parent / "somebody-elses.parquet").write_text("x")
    assert clean(table, timedelta(days=1), dry_run=False) == (0, 0)
    found = clean(place.open(), NOW, dry_run=True)
    assert found.files == 2
    assert found.size > 0
    assert list(other.iterdir())
    assert clean(place.open(), NOW, dry_run=False) == found
    assert clean(place.open(), NOW, dry_run=False) == (0, 0)
    assert place.rows() == [1, 2]
    old = place.open()._table
    if place.kind == "delta":
        old.load_as_version(3)
        assert len(old.to_pyarrow_table()) == 2
    else:
        assert len(old.scan(snapshot_id=old.snapshots()[1].snapshot_id).to_arrow()) == 2


def test_columns_are_compared_and_added(place: Place) -> None:
    table = place.open()
    with pytest.raises(InvalidArgument, match="n is STRING, and BIGINT in the table"):
        check_columns(table, StructType([StructField("n", StringType())]), evolve=True)
    with pytest.raises(InvalidArgument, match="column N is n in the table"):
        check_columns(table, StructType([StructField("N", LongType())]), evolve=True)
    more = StructType([StructField(name, kind) for name, kind in KINDS.items()])
    more = storable(more, place.kind, narrow=place.module.NARROW_INTEGERS)
    with pytest.raises(InvalidArgument, match="lacks i, d, t, z, s, m, y, o: --evolve"):
        check_columns(table, more, evolve=False)
    check_columns(table, more, evolve=True)
    check_columns(place.open(), more, evolve=False)
    check_columns(place.open(), StructType([N]), evolve=False)
