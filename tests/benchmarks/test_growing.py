"""The cases of latency, growth, rotation and catching up see what is lost."""

from __future__ import annotations

import time

import psycopg
import pytest

from benchmarks.cases import rotation
from benchmarks.figures import Wrong
from benchmarks.load.arrive import CONSUMER
from benchmarks.load.children import child, module
from benchmarks.load.cpu import Cpu, server_cpu
from benchmarks.load.fill import Contents, contents, fill, register_at_start
from benchmarks.load.latency import Load, measure
from benchmarks.load.walk import walk
from benchmarks.xmin.contestants import UNRELATED, held_xmin
from benchmarks.xmin.dead import DeadRows

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
