"""The metrics of shared consumers, and of the open batches of plain ones."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from prometheus_client import generate_latest

from pgqpy import calls
from pgqpy.ticker.metrics import (
    BATCH_ATTEMPTS,
    INFLIGHT,
    INFLIGHT_CLAIM,
    INFLIGHT_CRASHES,
    INFLIGHT_OLDEST,
    OF_SHARED,
    OLDEST_BATCH,
    PROCESSES,
    TickerMetrics,
    read_gauges,
)

if TYPE_CHECKING:
    import pgqpy

HOUR = timedelta(hours=1)


def test_events_in_flight_are_counted_by_their_state(client: pgqpy.Client, queue: str) -> None:
    names = (queue, "letters")
    client.register_consumer(*names, shared=True, key="extra1")
    reading = read_gauges(client)
    assert reading[INFLIGHT][queue, "letters", "fresh"] == 0
    assert reading[INFLIGHT_OLDEST] == {names: 0}
    for key in "aabc":
        client.insert_event(queue, "t", key, extra1=key)
    holder = client.call(calls.inflight.hold(*names, "app1:7", HOUR, keeps_session=False))
    assert client.call(calls.inflight.claim(*names, 1, HOUR, holder, alone=True))
    (second,) = client.receive(*names, limit=1, wait=0, key="extra1")
    second.retry(HOUR)
    client.connection.execute("update pgq.inflight set run_crashes = 2 where run_token > 0")
    reading = read_gauges(client)
    counts = {state: count for (*_, state), count in reading[INFLIGHT].items()}
    assert counts == {
        "fresh": 1,
        "returned": 0,
        "claimed": 1,
        "delayed": 1,
        "waiting": 1,
        "in_pieces": 0,
    }
    assert (reading[PROCESSES], reading[INFLIGHT_CRASHES]) == ({names: 1}, {names: 2})
    assert reading[INFLIGHT_OLDEST][names] > 0
    assert reading[INFLIGHT_CLAIM][names] > 0
    metrics = TickerMetrics()
    metrics.readings["shop"] = reading
    shown = generate_latest(metrics.registry).decode()
    labels = f'consumer="letters",database="shop",queue="{queue}",state="waiting"'
    assert f"pgq_inflight{{{labels}}} 1.0" in shown


def test_plain_consumers_have_their_open_batch_only(client: pgqpy.Client, queue: str) -> None:
    client.register_consumer(queue, "audit")
    client.insert_event(queue, "t", "1")
    client.tick_queue(queue)
    client.call(calls.consume.open_batch(queue, "billing", None, None, None))
    old = "update pgq.position set pos_moved = pos_moved - interval '1 min'"
    client.connection.execute(old)
    reading = read_gauges(client)
    assert reading[OLDEST_BATCH][queue, "audit"] == 0
    assert 60 <= reading[OLDEST_BATCH][queue, "billing"] < 3600
    assert reading[BATCH_ATTEMPTS] == {(queue, "audit"): 0, (queue, "billing"): 1}
    assert [reading[name] for name in (*OF_SHARED, INFLIGHT, PROCESSES)] == [{}] * 6
