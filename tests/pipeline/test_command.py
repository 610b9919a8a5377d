"""`pgqpy pipeline run` in this process."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from tests.support.hostile import lay_trap, trapped

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

    from tests.cli.support import Run
    from tests.spark.feed import Feed

COMMAND = ("pipeline", "run", "--queue", "orders", "--once")
OPTIONS = ("--schema", "n INT", "--starting-offsets", "earliest")


def test_it_goes_on_where_it_ended_and_calls_no_function_of_a_hostile_search_path(
    feed: Feed,
    run: Run,
    tmp_path: Path,
    connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    feed.insert('{"n": 1}')
    lay_trap(connection)
    for data in ('{"n": 2}', '{"n": 3}'):
        result = run(*COMMAND, *OPTIONS, "--to", str(tmp_path / "lake"))
        assert result.exit_code == 0, result.stderr
        assert "1 event, 0 of them bad" in result.stderr
        assert feed.standing("pipeline") == (feed.tick() - 1, [])
        feed.insert(data)
    found = ds.dataset(tmp_path / "lake", format="parquet", partitioning="hive").to_table(["n"])
    assert found.sort_by("n").to_pylist() == [{"n": 1}, {"n": 2}]
    assert trapped(connection) == 0
    assert os.environ["PYSPARK_PYTHON"] == sys.executable  # else it is the python3 of the PATH


def test_changes_of_one_of_the_captured_tables_become_records(
    feed: Feed, run: Run, tmp_path: Path, connection: psycopg.Connection[Any]
) -> None:
    for table in ("item", "other"):
        connection.execute(f"create table {table} (id int primary key, name text)")
        connection.execute("select pgq.add_capture('orders', %s)", [table])
        connection.execute(f"insert into {table} values (1, 'tea'), (2, 'milk')")
    connection.execute("update item set name = 'cocoa' where id = 2")
    connection.execute("delete from item where id = 1")
    connection.execute("truncate item")
    feed.tick()
    lake = str(tmp_path / "lake")
    result = run(
        *COMMAND,
        *("--capture", "--type", "public.item.*", "--starting-offsets", "earliest"),
        *("--schema", "name STRING NOT NULL", "--to", lake),
    )
    assert result.exit_code == 0, result.stderr
    assert "5 events, 0 of them bad" in result.stderr
    found = ds.dataset(lake, format="parquet", partitioning="hive").to_table().sort_by("ev_id")
    rows = found.select(["ev_table", "ev_op", "ev_key", "name", "ev_old"]).to_pylist()
    assert [tuple(row.values())[1:] for row in rows] == [
        ("insert", "1", "tea", None),
        ("insert", "2", "milk", None),
        ("update", "2", "cocoa", '{"id":2,"name":"milk"}'),
        ("delete", "1", "tea", None),
        ("truncate", None, None, None),
    ]
    assert {row["ev_table"] for row in rows} == {"public.item"}


@pytest.mark.parametrize(
    ("options", "exit_code", "words"),
    [
        (["--to", "lake", "--schema", "id INTT"], 2, '--schema: Unsupported data type "INTT"'),
        (["--to", "/dev/null/lake", "--schema", "id INT"], 1, "/dev/null"),
    ],
)
def test_what_spark_refuses_is_told_in_one_line(
    run: Run,
    feed: Feed,
    spark: SparkSession,  # all that need one are in one process: tests/support/groups.py
    options: list[str],
    exit_code: int,
    words: str,
) -> None:
    result = run(*COMMAND, *options)
    assert result.exit_code == exit_code
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert words in line
    assert "Traceback" not in result.stderr
