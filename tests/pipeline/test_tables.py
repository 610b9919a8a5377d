"""Pipelines into tables of Delta Lake and Iceberg, micro-batch by micro-batch, in this process."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.utils.config import Config

from pgqpy.pipeline.iceberg import table_name
from tests.spark.feed import Feed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.support import Run

FORMATS = ("delta", "iceberg")


class Lake:
    """A folder with a table, and the command that writes to it."""

    def __init__(self, run: Run, kind: str, folder: Path) -> None:
        self._run, self.kind, self.folder, self.queue = run, kind, folder, "orders"

    def write(self, *options: str, schema: str = "n INT", start: str = "earliest") -> str:
        """Write what is there; return what was said."""
        result = self.call(*options, schema=schema, start=start)
        assert result.exit_code == 0, result.stderr
        return result.stderr

    def call(self, *options: str, schema: str = "n INT", start: str = "earliest") -> Any:
        """Run the pipeline; return the result."""
        command = ("pipeline", "run", "--queue", self.queue, "--once", "--format", self.kind)
        begin = ("--to", str(self.folder), "--schema", schema, "--starting-offsets", start)
        return self._run(*command, *begin, *options)

    def delta(self) -> DeltaTable:
        """Open the Delta table."""
        return DeltaTable(str(self.folder))

    def iceberg(self) -> Any:
        """Open the Iceberg table."""
        place = f"sqlite:///{self.folder}/catalog.db"
        return SqlCatalog("default", uri=place, warehouse=f"file://{self.folder}").load_table(
            ("queues", table_name(self.queue))
        )

    def table(self) -> pa.Table:
        """Read the table with its own library."""
        if self.kind == "delta":
            return self.delta().to_pyarrow_table()
        return self.iceberg().scan().to_arrow()

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Read columns of the table."""
        found = self.table()  # noqa: F841  # DuckDB finds it by its name
        query = duckdb.sql(f"select {', '.join(columns)} from found")
        assert query is not None
        return sorted(query.fetchall(), key=str)


@pytest.fixture(params=FORMATS)
def lake(run: Run, request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(run, request.param, tmp_path / "lake")


def data(n: Any, **more: Any) -> str:
    return json.dumps({"n": n, **more})


def test_each_event_is_in_the_table_once_and_the_next_run_goes_on(lake: Lake, feed: Feed) -> None:
    feed.insert(data(1), "nope", data("x"), data(4))
    feed.insert(data(5), "nope either")
    said = lake.write("--max-events", "4")
    assert "6 events, 3 of them bad" in said
    feed.insert(data(6))
    lake.write()
    assert lake.rows("n") == [(1,), (4,), (5,), (6,)]


def test_several_queues_are_in_one_table_and_one_that_is_created_later_from_its_first_event(
    lake: Lake, feed: Feed
) -> None:
    lake.queue = "o*"
    other = Feed(feed.client, feed.dsn, "old")
    feed.insert(data(1))
    other.insert(data(2), "nope")
    assert "3 events, 1 of them bad" in lake.write()
    new = Feed(feed.client, feed.dsn, "other")
    new.insert(data(3))
    feed.insert(data(4))
    said = lake.write("--max-events", "1")
    assert "stopped at orders 3, old 2, other 2: 2 events, 0 of them bad" in said
    new.insert(data(5), "nope either")
    lake.write()
    wanted = [("old", 2), ("orders", 1), ("orders", 4), ("other", 3), ("other", 5)]
    assert lake.rows("ev_queue", "n") == wanted
    bad = ds.dataset(lake.folder / "_bad", format="parquet", partitioning="hive")
    assert sorted(bad.to_table(["ev_queue"]).column(0).to_pylist()) == ["old", "other"]


def test_other_queues_are_never_a_second_table_in_the_same_folder(lake: Lake, feed: Feed) -> None:
    feed.insert(data(1))
    lake.write()
    lake.queue = "orders,more"
    Feed(feed.client, feed.dsn, "more")
    result = lake.call()
    assert result.exit_code == 2
    why = {"delta": "--evolve add", "iceberg": "queues.orders of consumer 'pipeline'"}
    assert why[lake.kind] in result.stderr


def test_a_micro_batch_without_events_moves_the_offset_so_that_maintenance_loses_nothing(
    lake: Lake, feed: Feed
) -> None:
    """The source makes one after an hour without events."""
    feed.insert(data(1))
    feed.client.connection.execute("update pgq.tick set tick_time = tick_time - interval '3 hours'")
    lake.write()
    feed.tick()
    lake.write()
    feed.tick()
    feed.rotate()
    feed.insert(data(2))
    lake.write()
    assert lake.rows("n") == [(1,), (2,)]
    folders = list(lake.folder.rglob("pgqpy-*"))
    assert len(folders) == 2, "a micro-batch without events leaves no folder"


def test_bad_records_alone_are_there_once_and_the_run_says_that_none_was_kept(
    lake: Lake, feed: Feed
) -> None:
    feed.insert(data(1))
    lake.write()
    feed.insert("nope")
    assert "1 event, 1 of them bad; none was kept" in lake.write()
    last = max(lake.folder.glob("_bad/*"))
    later = last.with_name(f"{last.name.rpartition('-')[0]}-00000999")
    shutil.copytree(last, later)
    feed.insert("nope either")
    lake.write()
    bad = ds.dataset(lake.folder / "_bad", format="parquet", partitioning="hive")
    assert sorted(bad.to_table(["ev_data"]).column(0).to_pylist()) == ["nope", "nope either"]
    assert lake.rows("n") == [(1,)]


@pytest.mark.parametrize("by", ["day", "name"])
def test_a_table_is_divided_by_a_column_whatever_its_values_are(
    lake: Lake, feed: Feed, by: str
) -> None:
    names = ["a/b c", "ü=%41", None, "__HIVE_DEFAULT_PARTITION__ ", "is null", "null"]
    feed.insert(*(data(n, name=name) for n, name in enumerate(names)))
    lake.write("--partition-by", by, schema="n INT, name STRING")
    feed.insert(data(6, name="later"))
    lake.write(schema="n INT, name STRING")
    assert lake.rows("n", "name") == [*enumerate(names), (6, "later")]
    column = "ev_date" if by == "day" else by
    if lake.kind == "delta":
        assert lake.delta().metadata().partition_columns == [column]
        assert lake.delta().to_pyarrow_table(filters=[("name", "=", "a/b c")]).num_rows == 1
    else:
        (field,) = lake.iceberg().spec().fields
        assert field.name == column
        for name in filter(None, names):
            found = lake.iceberg().scan(row_filter=f"name = '{name}'").to_arrow()
            assert found.column("name").to_pylist() == [name]
    result = lake.call("--partition-by", "ev_type", schema="n INT, name STRING")
    assert result.exit_code == 2
    assert f"--partition-by: the table is partitioned by {column}" in result.stderr


def test_new_columns_are_added_if_that_is_wanted_and_types_never_change(
    lake: Lake, feed: Feed
) -> None:
    feed.insert(data(1))
    lake.write()
    feed.insert(data(2, d="1.50"))
    for schema, words in (
        ("n INT, d DECIMAL(10,2)", "--schema: the table lacks d: --evolve add adds columns"),
        ("n STRING", "--schema: column n is STRING, and INT in the table"),
    ):
        result = lake.call(schema=schema)
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
    lake.write("--evolve", "add", schema="n INT, d DECIMAL(10,2)")
    assert lake.rows("n", "d::text") == [(1, None), (2, "1.50")]
    lake.write("--evolve", "add", schema="n INT")


def test_events_of_infinite_times_do_not_stop_it(lake: Lake, feed: Feed) -> None:
    feed.insert(data(1), data(2))
    feed.client.connection.execute(
        "update pgq.event_1 set ev_time = 'infinity' where ev_data = %s".replace(
            "pgq.event_1", event_table(feed)
        ),
        [data(1)],
    )
    lake.write("--partition-by", "day")
    assert lake.rows("n") == [(1,), (2,)]


def event_table(feed: Feed) -> str:
    row = feed.client.connection.execute("select pgq.current_event_table('orders')").fetchone()
    assert row is not None
    return str(row[0])


def test_the_statistics_of_delta_prune_files(run: Run, feed: Feed, tmp_path: Path) -> None:
    lake = Lake(run, "delta", tmp_path / "lake")
    texts = ["a" * 50, "b"]
    feed.insert(*(data(n, t=t, d=n + 0.25, f=n / 4) for n, t in zip((1, 3), texts, strict=True)))
    feed.insert(data(None))
    lake.write("--partitions", "1", schema="n INT, t STRING, d DECIMAL(38,2), f DOUBLE")
    (found,) = pa.table(lake.delta().get_add_actions(flatten=True)).to_pylist()
    assert found["num_records"] == 3
    assert (found["min.n"], found["max.n"], found["null_count.n"]) == (1, 3, 1)
    assert (found["min.t"], found["max.t"]) == ("a" * 32, "b")
    assert (str(found["min.d"]), str(found["max.d"])) == ("1.25", "3.25")
    assert (found["min.f"], found["max.f"]) == (0.25, 0.75)
    assert found["min.ev_time"] <= found["max.ev_time"]


ODD = {  # by column: its type, a value as others have, and odd ones, in JSON and in SQL
    "i": ("BIGINT", "1", {"9223372036854775807": "9223372036854775807"}),
    "u": (
        "STRING",
        '"b"',
        {f'"{"a" * 36}"': f"'{'a' * 36}'", f'"{"z" * 5000}"': f"'{'z' * 5000}'"},
    ),
    "f": ("DOUBLE", "1.5", {"1e400": "'inf'::double", "-0.0": "0.0"}),
    "k": ("DECIMAL(38,0)", "1", {f"1{'0' * 30}": f"1{'0' * 30}::decimal(38,0)"}),
    "d": ("DECIMAL(17,2)", "1", {"999999999999999.99": "999999999999999.99::decimal(17,2)"}),
    "t": ("DATE", '"2026-12-01"', {'"1500-01-01"': "date '1500-01-01'"}),
    "o": ("BOOLEAN", "true", {"false": "false"}),
    "`a.b`": ("INT", "1", {"2": "2"}),
    "s": ("STRUCT<b: INT>", '{"b": 3}', {'{"b": 4}': "{'b': 4}"}),
}


def test_the_statistics_of_delta_hide_no_row(run: Run, feed: Feed, tmp_path: Path) -> None:
    lake = Lake(run, "delta", tmp_path / "lake")
    schema = ", ".join(f"{name} {kind}" for name, (kind, *_) in ODD.items())
    files = [{name: value for name, (_, value, _) in ODD.items()}]
    for number in range(2):
        odd = {name: [*more][number] for name, (*_, more) in ODD.items() if len(more) > number}
        files.append(odd)
    files.append({"t": '"+12026-01-01"'})  # Python does not know the date
    for fields in files:
        members = ['"{}": {}'.format(name.strip("`"), text) for name, text in fields.items()]
        feed.insert(f"{{{', '.join(members)}}}")
        lake.write("--partitions", "1", schema=schema)
    rows = lake.delta().to_pyarrow_dataset()

    def count(condition: str) -> int:
        found = rows  # noqa: F841  # DuckDB finds it by its name
        (row,) = duckdb.sql(f"select count(*) from found where {condition}").fetchall()  # type: ignore[union-attr]  # a query
        return int(row[0])

    for name, (*_, more) in ODD.items():
        for sql in more.values():
            column = name.replace("`", '"')
            assert count(f"{column} = {sql}") == 1, (name, sql)
    assert count("t >= '2026-12-01'") == 2
    assert count("s.b = 4") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--schema", "a ARRAY<INTERVAL DAY>"], "has no type for a INTERVAL DAY"),
        (["--partition-by", "nope"], "--partition-by: there is no column nope: name day, or one"),
        (["--partition-by", "ev_time"], "--partition-by: ev_time is TIMESTAMP: only texts"),
    ],
)
def test_what_a_table_cannot_hold_is_refused_at_the_start(
    lake: Lake, feed: Feed, options: list[str], words: str
) -> None:
    result = lake.call(*options)
    assert result.exit_code == 2, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_place_that_is_no_table_is_refused(lake: Lake, feed: Feed) -> None:
    lake.folder.mkdir()
    (lake.folder / "notes.txt").write_text("mine")
    result = lake.call()
    assert result.exit_code == 2
    assert "name an empty folder" in result.stderr
    lake.folder = lake.folder / "notes.txt" / "lake"
    result = lake.call()
    assert result.exit_code == 2
    assert "cannot be opened" in result.stderr
    assert "Traceback" not in result.stderr


def test_clean_removes_what_a_killed_run_left(lake: Lake, feed: Feed, run: Run) -> None:
    place = ("--format", lake.kind, "--to", str(lake.folder))
    result = run("pipeline", "clean", *place)
    assert (result.exit_code, "there is no table" in result.stderr) == (2, True)
    feed.insert(data(1))
    lake.write()
    (written,) = lake.folder.rglob("pgqpy-*-*-*")
    shutil.copytree(written, f"{written}"[:-4] + "beef")
    result = run("pipeline", "clean", *place, "--older-than", "0s")
    assert result.exit_code == 0, result.stderr
    assert " files removed, " in result.stderr
    assert (
        "pipeline: 0 files would be removed, 0 bytes"
        in run("pipeline", "clean", *place, "--older-than", "0s", "--dry-run").stderr
    )
    assert lake.rows("n") == [(1,)]


def test_a_table_of_a_catalog_is_written_to_and_one_that_is_away_is_told_in_one_line(
    run: Run, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(run, "iceberg", tmp_path / "lake")
    lake.folder.mkdir()
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__URI", f"sqlite:///{lake.folder}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__WAREHOUSE", f"file://{lake.folder}")
    monkeypatch.setenv("PYICEBERG_CATALOG__AWAY__URI", "http://127.0.0.1:1/")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # read when it was imported
    feed.insert(data(1))
    own = ("--to", "queues.orders", "--bad-to", str(tmp_path / "bad"))
    lake.write(*own, "--catalog", "default")
    assert lake.rows("n") == [(1,)]
    for name in ("away", "unknown"):
        result = lake.call(*own, "--catalog", name)
        assert result.exit_code == 2
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert f"--catalog: {name} cannot be reached" in line
