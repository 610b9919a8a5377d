"""`python -m benchmarks` without peers, JDBC or Java; the cases see what is lost."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import psycopg
import pytest

import benchmarks.__main__
from benchmarks import cases, events
from benchmarks.bench import Bench
from benchmarks.cases import bulk, insert, rotation, spark
from benchmarks.figures import Figure, Wrong
from benchmarks.load.arrive import CONSUMER
from benchmarks.load.children import child, module
from benchmarks.load.cpu import Cpu, server_cpu
from benchmarks.load.fill import Contents, contents, fill, register_at_start
from benchmarks.load.latency import Load, measure
from benchmarks.load.walk import walk
from benchmarks.report import Section, Table
from benchmarks.server import Server
from benchmarks.spark.streaming import Point, Sustained
from benchmarks.xmin.contestants import UNRELATED, held_xmin
from benchmarks.xmin.dead import DeadRows
from tests.support.servers import memory

RATES = ("insert", "bulk", "consume", "receive", "keys")
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


QUEUE = "bench"


def test_an_event_that_does_not_arrive_is_wrong(dsn, client):
    client.create_queue(QUEUE)
    client.register_consumer(QUEUE, CONSUMER)
    load = Load("pgqpy", dsn, QUEUE, rate=50, seconds=0.2)
    with (
        child(*module("arrive", "pgqpy", dsn, QUEUE)) as consumer,
        pytest.raises(Wrong, match="events that came out: 0, should be 60"),  # nobody ticks
    ):
        measure(load, consumer, lambda: Cpu(lambda: 0.0), patience=0.1)


def test_a_process_that_fails_is_wrong(empty_dsn):
    with (
        child(*module("tally", empty_dsn, QUEUE, "c")) as consumer,
        pytest.raises(Wrong, match="ended with code 1"),
    ):
        while True:
            consumer.ask("count")


def test_a_backlog_is_filled_tick_by_tick_and_read_again_from_the_start(dsn, client):
    client.create_queue(QUEUE)
    client.register_consumer(QUEUE, "keeper")
    fill(dsn, QUEUE, [3, 1, 2])
    assert contents(dsn, QUEUE) == Contents(6, 1 + 2 + 3 + 4 + 5 + 6)
    for name in ("one", "two"):
        register_at_start(dsn, QUEUE, name)
        found = walk(dsn, QUEUE, name)
        assert found[:2] == (6, 21)
        assert len(found.cycles) == 3
    register_at_start(dsn, QUEUE, "one")
    assert walk(dsn, QUEUE, "one").events == 6


def test_a_rotation_case_that_loses_an_event_is_wrong():
    class Consumer:
        def ask(self, question):
            return {"count": 4, "ids": 1 + 2 + 3 + 5}[question]

    with pytest.raises(Wrong, match="sum of their ids"):
        rotation.verify_all(Consumer(), 4)


def test_dead_rows_are_counted_apart_while_xmin_is_held(dsn, client, connection):
    client.create_queue(QUEUE)
    connection.execute(UNRELATED)
    dead_rows = DeadRows(connection)
    with held_xmin(dsn):
        for _ in range(5):
            client.insert_event(QUEUE, "t", "")
            connection.execute("update pgq.queue set queue_rotation_period = '1 day'")
        connection.execute("vacuum pgq.queue")
        before = dead_rows.look(0.0)
        connection.execute("delete from pgq.event_1_0")
        after = dead_rows.look(1.0)
    assert before.dead["small"]["queue"] == 5
    assert (before.total("events"), after.total("events")) == (0, 5)


def test_the_servers_cpu_includes_sessions_that_have_ended(own_server):
    # not `dsn`: a container's server has processes that are numbered otherwise here
    cpu, start = server_cpu(own_server.dsn()), time.monotonic()
    with psycopg.connect(own_server.dsn()) as connection:
        connection.execute("select count(*) from generate_series(1, 3000000)")
    assert cpu.percent() / 100 * (time.monotonic() - start) > 0.15  # seconds
