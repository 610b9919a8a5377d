"""`python -m benchmarks spark` on the embedded server, without JDBC; and without Java."""

from __future__ import annotations

import json

import pytest

from benchmarks import cases
from benchmarks.cases import spark
from benchmarks.figures import Figure
from benchmarks.report import Table
from benchmarks.spark.streaming import Point, Sustained


@pytest.mark.long
def test_a_smoke_of_spark_writes_its_results(spawn, tmp_path):
    process = spawn("-m", "benchmarks", "--smoke", "--alone", "--results", str(tmp_path), "spark")
    assert process.wait(timeout=240) == 0, process.output()
    found = json.loads((tmp_path / "results/spark.json").read_text())["section"]
    read, written, *_ = found["tables"]
    assert all(row[1]["values"][0] > 0 for row in read["rows"] + written["rows"])
    assert "## spark: " in (tmp_path / "results.md").read_text()


def test_without_java_the_case_says_so_in_one_sentence(spawn, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    process = spawn("-m", "benchmarks", "--smoke", "--alone", "--results", str(tmp_path), "spark")
    assert process.wait(timeout=60) == 1
    said = process.output().strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith("Error: Java 17 or later is needed")


def test_spark_runs_if_it_is_named():
    assert "spark" in cases.names()
    assert "spark" not in cases.usual()


def test_micro_batches_are_compared_by_thirds():
    points = [Point(n, took, 10) for n, took in enumerate([1, 2, 1, 5, 5, 5, 2, 3, 2])]
    assert Sustained(points, 1.0, 0.0).ends == (1, 2)


def test_ratios_are_those_of_a_round():
    table = spark.rates("Read", {"pgqpy": Figure([4.0, 6.0]), "JDBC": Figure([2.0, 2.0])})
    assert isinstance(table, Table)
    assert table.rows[0][2] == Figure([2.0, 3.0])
