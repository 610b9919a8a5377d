"""`--schema infer`: the columns are found in the newest events once, and never change after."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from pgqpy.errors import InvalidArgument
from pgqpy.pipeline import infer as module
from pgqpy.pipeline.folders import write_text
from pgqpy.pipeline.infer import find_schema, infer
from pgqpy.pipeline.options import PipelineOptions
from pgqpy.pipeline.progress import QueueMonitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.cli.support import Run
    from tests.spark.feed import Feed

    Find = Callable[..., tuple[str, list[str]]]

COMMAND = ("pipeline", "run", "--queue", "orders", "--once", "--schema", "infer")
FOUND = "in the last 6 events of queue 'orders', 1 of them JSON objects"
TREE = '{"o": {"a": 1, "l": [{"x": true, "X": 1}], "A": 2}, "e": [], "n": null, "none": {}}'
COLUMNS = [
    (['{"i": 1, "f": 1.10, "b": true, "s": "x", "d": "2026-01-01"}'],
     "b BOOLEAN,d STRING,f DOUBLE,i BIGINT,s STRING", []),
    ([TREE], "e ARRAY<STRING>,n STRING,o STRUCT<a: BIGINT, l: ARRAY<STRUCT<x: BOOLEAN>>>",
     ["o.A", "o.l.X"]),
    (['{"a": 1}', '{"a": 1.5, "b": 12345678901234567890}', '{"c": 1}', '{"c": "x"}'],
     "a DOUBLE,b DECIMAL(20,0),c STRING", []),
    (['{"id": 1, "ID": 2, "Id": 3, "ev_id": 4, "Ev_Rescued": 5, "_corrupt": 6, "": 7}'],
     "id BIGINT", ["Ev_Rescued", "_corrupt", "ev_id", "ID", "Id"]),
    (['{"a": NaN}', "{'a': 1}", '{"b c": 1, "x`y": 2}'], "`b c` BIGINT,`x``y` BIGINT", []),
]  # fmt: skip  # a case is a line or two


@pytest.mark.parametrize(("texts", "ddl", "left_out"), COLUMNS)
def test_each_field_becomes_a_column_that_ddl_and_files_can_have(
    spark: SparkSession, texts: list[str], ddl: str, left_out: list[str]
) -> None:
    schema, names = infer(spark, texts)
    assert (schema.toDDL(), names) == (ddl, left_out)


@pytest.fixture
def find(spark: SparkSession, dsn: str, tmp_path: Path) -> Find:
    """Find the columns as a run does: return them, and what it says."""

    def found(**options: Any) -> tuple[str, list[str]]:
        said: list[str] = []
        given = {"queue": "orders", "to": str(tmp_path / "lake"), "schema": "infer", **options}
        with closing(QueueMonitor(dsn, "orders")) as monitor:
            schema = find_schema(spark, PipelineOptions(**given), monitor, said.append)
        assert schema is not None
        return schema.toDDL(), said

    return found


def test_columns_are_kept_and_may_be_edited_but_do_not_follow_later_events(
    find: Find, feed: Feed, tmp_path: Path
) -> None:
    feed.insert('{"a": 1, "ev_id": 2}', "nope", "[]", '[{"b": 1}]', '{"c": 1} {}', None)
    path = tmp_path / "lake" / "_schema.ddl"
    assert find(to=None, format="console")[0] == "a BIGINT"
    assert not path.exists()
    ddl, said = find()
    assert ddl == path.read_text() == "a BIGINT"
    assert said == [
        f"columns found {FOUND}: --schema 'a BIGINT'",
        "left out, the pipeline's own names or like another but for upper case: ev_id",
        f"columns kept in {path}: later runs read them there",
    ]
    feed.insert('{"a": "x", "b": 1}')
    assert find() == (ddl, [f"columns of {path}: --schema 'a BIGINT'"])
    path.write_text("a STRING\n")
    assert find() == ("a STRING", [f"columns of {path}: --schema 'a STRING'"])
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_the_newest_events_of_the_types_count(
    find: Find, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.insert('{"old": 1}', type="order.new")
    feed.insert('{"a": 1}', type="order.new")
    feed.insert('{"b": 1}', type="order.paid")
    feed.insert('{"c": 1}', type="orders")
    monkeypatch.setattr(module, "LOOKED_AT", 2)
    assert find(to=None, types=("order.*",))[0] == "a BIGINT,b BIGINT"


@pytest.mark.parametrize(
    ("datas", "words"),
    [
        ([], "last 0 events of queue 'orders', 0 of them JSON objects"),
        (["nope", '[{"a": 1}]', "[" * 100_000], "last 3 events of queue 'orders', 0 of them"),
        (["{}", '{"ev_id": 1}'], "last 2 events of queue 'orders', 2 of them JSON objects"),
    ],
)
def test_without_a_field_nothing_is_kept_and_it_is_said_what_to_do(
    find: Find, feed: Feed, tmp_path: Path, datas: list[str], words: str
) -> None:
    feed.insert(*datas)
    with pytest.raises(InvalidArgument, match="start again when") as refused:
        find()
    assert words in str(refused.value)
    assert refused.value.parameter == "schema"
    assert not (tmp_path / "lake").exists()


def test_names_of_events_reach_no_terminal_unescaped(find: Find, feed: Feed) -> None:
    feed.insert(r'{"a\u001b[2J": 1, "EV_\u0130": 1}')
    ddl, said = find(to=None)
    assert "\x1b" in ddl
    assert "\x1b" not in "".join(said)


def test_a_file_that_cannot_be_written_to_its_end_is_not_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_text(spark, str(tmp_path / "text"), "\ud800")
    assert not (tmp_path / "text").exists()


def test_a_run_writes_the_columns_and_the_fields_that_come_later(
    feed: Feed, run: Run, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    options = ("--rescue", "--starting-offsets", "earliest", "--to", lake)
    for data in ('{"n": 1}', '{"n": 2, "new": 1.10}', '{"n": "bad"}'):
        feed.insert(data)
        result = run(*COMMAND, *options)
        assert result.exit_code == 0, result.stderr
        assert "--schema 'n BIGINT'" in result.stderr
    assert "1 event, 1 of them bad; none was kept" in result.stderr
    found = ds.dataset(lake, format="parquet", partitioning="hive").to_table(["n", "ev_rescued"])
    assert [tuple(row.values()) for row in found.sort_by("n").to_pylist()] == [
        (1, None),
        (2, '{"new": 1.10}'),
    ]


def test_a_folder_that_cannot_be_written_is_told_in_one_line(feed: Feed, run: Run) -> None:
    feed.insert('{"n": 1}')
    result = run(*COMMAND, "--to", "/dev/null/lake")
    assert result.exit_code == 1
    cause = "ParentNotDirectoryException: Parent path is not a directory: /dev/null"
    assert result.stderr.splitlines()[-1] == f"error: {cause}"
