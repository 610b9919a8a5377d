"""The metrics of workers, of leases and of careful mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest

from pgqpy import calls
from pgqpy.ticker.metrics import (
    CAREFUL_WORKERS,
    CONSUMER_LAG,
    DEAD_WORKERS,
    LAPSED_MESSAGES,
    LEASED_MESSAGES,
    LIVE_WORKERS,
    OF_SHARED,
    OLDEST_BATCH,
    OPEN_BATCHES,
    PENDING_EVENTS,
    TickerMetrics,
    read_gauges,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    import pgqpy

LOCK = """
    select pg_advisory_lock(7366514, sub_id) from pgq.registration
        join pgq.consumer on co_id = sub_consumer where co_name = %s
"""
TAKE = "select batch_id from pgq.take_part(%s, 'mails', %s, %s, %s::interval)"


def tick_one(client: pgqpy.Client, queue: str) -> None:
    client.insert_event(queue, "t", "1")
    client.tick_queue(queue)


def test_workers_are_counted_by_what_the_server_knows_of_them(
    client: pgqpy.Client, queue: str, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run = client.connection.execute
    for worker in ("idle", "busy", "dead", "leased", "ended"):
        run("select pgq.register_subconsumer(%s, 'mails', %s)", [queue, worker])
    for worker in ("idle", "busy"):
        connect().execute(LOCK, [f"mails.{worker}"])
    for worker, lease in (
        ("busy", None),
        ("leased", "1 hour"),
        ("ended", "1 hour"),
        ("dead", None),
    ):
        tick_one(client, queue)
        assert run(TAKE, [queue, worker, f"run of {worker}", lease]).fetchone() != (None,)
    run("update pgq.position set pos_until = now() where pos_holder = 'run of ended'")
    run("update pgq.position set pos_moved = pos_moved - interval '1 min'")
    reading = read_gauges(client)
    shown = {name: reading[name] for name in (*OF_SHARED, OPEN_BATCHES, OLDEST_BATCH)}
    oldest = shown.pop(OLDEST_BATCH)[queue, "mails"]
    assert 60 <= oldest < 3600
    assert shown == {
        LIVE_WORKERS: {(queue, "mails"): 3},
        DEAD_WORKERS: {(queue, "mails"): 2},
        OPEN_BATCHES: {(queue, "billing"): 0, (queue, "mails"): 4},
        LEASED_MESSAGES: {(queue, "mails"): 0},
        LAPSED_MESSAGES: {(queue, "mails"): 0},
    }


def test_a_batch_that_was_taken_over_is_of_no_dead_worker(client: pgqpy.Client, queue: str) -> None:
    run = client.connection.execute
    for worker in ("1", "2"):
        run("select pgq.register_subconsumer(%s, 'mails', %s)", [queue, worker])
    tick_one(client, queue)
    seen = []
    for worker in ("1", "2"):
        run(TAKE, [queue, worker, f"run of {worker}", "1 hour" if worker == "2" else None])
        reading = read_gauges(client)
        names = (queue, "mails")
        seen.append([reading[name][names] for name in (DEAD_WORKERS, CAREFUL_WORKERS)])
    assert seen == [[1, 0], [0, 1]]
    ((batch,),) = run("select max(pos_batch) from pgq.position").fetchall()
    client.finish_batch(batch)
    assert read_gauges(client)[CAREFUL_WORKERS][names] == 0


def test_messages_are_counted_until_they_are_finished(client: pgqpy.Client, queue: str) -> None:
    client.receive(queue, "billing", wait=0)
    names = (queue, "billing")
    assert read_gauges(client)[LEASED_MESSAGES][names] == 0
    client.insert_events(queue, [("t", str(number)) for number in range(5)])
    client.tick_queue(queue)
    first, *_ = client.receive(queue, "billing", limit=3, lease=60)
    first.done()
    reading = read_gauges(client)
    of_messages = (LEASED_MESSAGES, LAPSED_MESSAGES, OPEN_BATCHES, LIVE_WORKERS, DEAD_WORKERS)
    assert [reading[name][names] for name in of_messages] == [2, 0, 0, 0, 0]
    client.connection.execute("update pgq.inflight set run_due = now()")
    reading = read_gauges(client)
    assert [reading[name][names] for name in of_messages] == [0, 2, 0, 0, 0]


def test_plain_consumers_have_their_batch_and_careful_mode_only(
    client: pgqpy.Client, queue: str
) -> None:
    client.register_consumer(queue, "audit")
    tick_one(client, queue)
    client.next_batch(queue, "billing")
    for run in ("first", "second"):
        client.connection.execute("select pgq.begin_run(%s, 'billing', %s)", [queue, run])
    old = "update pgq.position set pos_moved = pos_moved - interval '1 min'"
    client.connection.execute(old)
    reading = read_gauges(client)
    assert reading[CAREFUL_WORKERS] == {(queue, "audit"): 0, (queue, "billing"): 1}
    assert reading[OPEN_BATCHES] == {(queue, "audit"): 0, (queue, "billing"): 1}
    assert reading[OLDEST_BATCH][queue, "audit"] == 0
    assert 60 <= reading[OLDEST_BATCH][queue, "billing"] < 3600
    assert {name: reading[name] for name in OF_SHARED} == {name: {} for name in OF_SHARED}
    metrics = TickerMetrics()
    metrics.readings["shop"] = reading
    shown = generate_latest(metrics.registry).decode()
    labels = f'{{consumer="billing",database="shop",queue="{queue}"}}'
    assert f"pgq_careful_workers{labels} 1.0" in shown


def test_a_consumer_with_lanes_is_where_its_slowest_lane_is(
    client: pgqpy.Client, queue: str, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    client.register_consumer(queue, "mails")
    client.call(calls.lanes.set_lanes(queue, "mails", 3, "extra1"))
    client.insert_events(queue, [("t", "1", f"key{number}") for number in range(12)])
    client.tick_queue(queue)
    old = "update pgq.tick set tick_time = now() - interval '1 hour' where tick_id = 1"
    client.connection.execute(old)
    session = connect()
    session.execute("select pg_advisory_lock_shared(7366516, hashtext('run 1'))")
    take = "select batch_id from pgq.take_lane(%s, 'mails', %s)"
    for holder in ("run 2", "run 1"):
        batch = session.execute(take, [queue, holder]).fetchone()
        assert batch
        if holder == "run 2":
            session.execute("select pgq.finish_batch(%s)", batch)
    session.execute(take, [queue, "run 3"])
    reading = read_gauges(client)
    names = (queue, "mails")
    assert [name for name in reading[CONSUMER_LAG] if name[1].startswith("mails")] == [names]
    assert reading[CONSUMER_LAG][names] >= 3600
    assert reading[PENDING_EVENTS][names] == 12
    assert [reading[name][names] for name in (LIVE_WORKERS, DEAD_WORKERS, OPEN_BATCHES)] == [
        1,
        1,
        2,
    ]
