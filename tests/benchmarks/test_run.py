"""`python -m benchmarks` on the embedded server, without peers, JDBC or Java."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

import benchmarks.__main__
from benchmarks import cases, events
from benchmarks.bench import Bench
from benchmarks.cases import bulk, insert, spark
from benchmarks.figures import Figure, Wrong
from benchmarks.report import Section, Table
from benchmarks.server import Server
from benchmarks.spark.streaming import Point, Sustained
from tests.support.servers import memory

RATES = ("insert", "bulk", "consume")
PLOTS = {"latency": 0, "growth": 5, "rotation": 1, "catch_up": 0}


@pytest.fixture
def bench(own_server):
    return Bench(Server(own_server, peers=False), "smoke", 1, alone=True)


@pytest.mark.long
def test_a_smoke_writes_the_results_of_its_cases(spawn, tmp_path):
    arguments = ["--smoke", "--alone", "--results", str(tmp_path), *RATES, *PLOTS]
    place = memory()
    process = spawn("-m", "benchmarks", *arguments, env={"TMPDIR": str(place)} if place else {})
    assert process.wait(timeout=240) == 0, process.output()
    text = (tmp_path / "results.md").read_text()
    sections = {}
    for case in (*RATES, *PLOTS):
        assert f"## {case}: " in text
        sections[case] = json.loads((tmp_path / f"results/{case}.json").read_text())["section"]
    for case in RATES:
        (table, *_) = sections[case]["tables"]
        assert all(figure["values"][0] > 0 for _, *row in table["rows"] for figure in row)
    assert all(sections[case]["targets"] for case in PLOTS)
    assert {case: len(sections[case]["plots"]) for case in PLOTS} == PLOTS


def test_events_that_are_missing_are_wrong(dsn, client):
    client.create_queue(insert.QUEUE)
    contestant = insert.Contestant(dsn, insert.INSERT, insert.COUNT, inserted=1)
    with pytest.raises(Wrong):
        contestant.verify("pgqpy")
    client.insert_event(insert.QUEUE, "t", "")
    contestant.verify("pgqpy")


def test_a_bulk_insert_that_loses_an_event_is_wrong(dsn, client):
    client.create_queue(bulk.QUEUE)

    def lossy(place, made, count):
        return bulk.by_client(place, made, count - 1)

    made = events.make(1000)
    assert bulk.rate(bulk.Contestant(bulk.by_client, "pgq.event_1_0"), dsn, made, 1000) > 0
    with pytest.raises(Wrong):
        bulk.rate(bulk.Contestant(lossy, "pgq.event_1_0"), dsn, made, 1000)


def test_a_wrong_case_stops_no_other_and_is_told(bench, tmp_path, monkeypatch, capsys):
    def wrong(_bench):
        raise Wrong("9 events, should be 10")

    def right(_bench):
        return Section("bulk", "Title", [], [])

    modules = {"insert": SimpleNamespace(run=wrong), "bulk": SimpleNamespace(run=right)}
    monkeypatch.setattr(cases, "load", modules.get)
    found = benchmarks.__main__.measure(bench, ["insert", "bulk"], tmp_path / "results")
    assert found == ["insert"]
    assert "insert: WRONG: 9 events, should be 10" in capsys.readouterr().err
    assert (tmp_path / "results/bulk.json").exists()
    assert not (tmp_path / "results/insert.json").exists()


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
