"""The metrics of consumers: what is counted, once each, and that nothing is measured unasked."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from pgqpy.consumers import histograms
from pgqpy.consumers.histograms import MOST, HandlerTimes, Histogram, InsertTimes
from pgqpy.consumers.metrics import expose_metrics
from pgqpy.records import Event
from tests.consumers.harness import CONSUMER, QUEUE
from tests.support.waiting import eventually

OLD = "update pgq.event_template set ev_time = now() - interval '2 hours' where ev_data = 'old'"
HANDLER, AGE = "pgq_consumer_handler_seconds", "pgq_consumer_insert_to_done_seconds"
EVENTS = "pgq_consumer_events_total"
MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "watched": {"handler_timeout": 60.0},
    "parts": {"part_size": 1},
}


class Metrics:
    """A registry, and the values in it."""

    def __init__(self) -> None:
        """Make it."""
        self.registry = CollectorRegistry()

    def __call__(self, name: str, queue: str = QUEUE, **more: str) -> float | None:
        """Return a value; None if there is no such line."""
        return self.registry.get_sample_value(name, {"queue": queue, "consumer": CONSUMER, **more})


@pytest.fixture
def metrics():
    return Metrics()


def run(make: Any, metrics: Metrics, *handler: Any, **settings: Any) -> Any:
    consumer = make.consumer(*handler, **settings)
    expose_metrics(consumer, metrics.registry)
    return make.run(consumer)


@pytest.mark.parametrize("mode", MODES)
def test_each_call_is_timed_and_each_event_that_is_done_has_its_age(queue, make, metrics, mode):
    failing = threading.Event()
    failing.set()

    def handler(event: Event) -> None:
        if event.data == "fails" and failing.is_set():
            raise ValueError("not yet")

    for data in ("a", "old", "fails"):
        queue.client.insert_event(QUEUE, "t", data)
    queue.client.connection.execute(OLD)
    queue.tick()
    run(make, metrics, handler, backoff=(3600.0, 3600.0), **MODES[mode])
    eventually(lambda: metrics(EVENTS) == 3)
    assert metrics(f"{HANDLER}_count") == 3
    assert metrics(f"{AGE}_count") == 2
    assert metrics(f"{AGE}_bucket", le="3600.0") == 1
    assert metrics(f"{AGE}_bucket", le="14400.0") == 2
    assert 7200 <= (metrics(f"{AGE}_sum") or 0) < 14400


def test_a_transactional_handler_is_timed(queue, make, metrics, effects):
    def handler(event: Event) -> Any:
        yield "insert into effect (data) values (%s)", [event.data]

    queue.insert("a", "b")
    run(make, metrics, handler, transactional=True)
    eventually(lambda: metrics(EVENTS) == 2)
    assert effects() == ["a", "b"]
    assert (metrics(f"{HANDLER}_count"), metrics(f"{AGE}_count")) == (2, 2)


def test_a_handler_of_batches_has_one_time_a_batch_and_an_age_an_event(queue, make_sync, metrics):
    def read_twice(_self: Any, batch: Any) -> None:
        assert [event.id for event in batch] == [event.id for event in batch]

    for data in ("a", "old", "c"):
        queue.client.insert_event(QUEUE, "t", data)
    queue.client.connection.execute(OLD)
    queue.tick()
    run(make_sync, metrics, process_batch=read_twice)
    eventually(lambda: metrics(EVENTS) == 3)
    assert (metrics(f"{HANDLER}_count"), metrics(f"{AGE}_count")) == (1, 3)
    assert metrics(f"{AGE}_bucket", le="3600.0") == 2
    assert metrics(f"{AGE}_bucket", le="14400.0") == 3


def test_a_failed_batch_is_timed_and_has_no_age(queue, make_sync, metrics):
    calls = []

    def fail_once(_self: Any, batch: Any) -> None:
        calls.append(list(batch))
        if len(calls) == 1:
            raise ValueError("not yet")

    queue.insert("a", "b")
    run(make_sync, metrics, process_batch=fail_once, backoff=(0.01, 3600.0))
    eventually(lambda: metrics(EVENTS) == 2)
    assert (metrics(f"{HANDLER}_count"), metrics(f"{AGE}_count")) == (2, 2)


def test_two_consumers_of_one_name_are_added_up(queue, make, metrics):
    for data in ("first", "second"):
        running = run(make, metrics, lambda event: None)
        queue.deliver(data)
        running.stop()
    assert metrics(EVENTS) == 2
    assert metrics(f"{HANDLER}_count") == 2
    families = [family.name for family in metrics.registry.collect()]
    assert len(families) == len(set(families))


def test_exposing_twice_counts_once(queue, make, metrics):
    consumer = make.consumer(lambda event: None)
    for _ in range(2):
        expose_metrics(consumer, metrics.registry)
    queue.insert("a")
    make.run(consumer)
    eventually(lambda: metrics(EVENTS) == 1)
    assert metrics(f"{HANDLER}_count") == 1


def test_connected_is_0_before_and_after_a_run(queue, make, metrics):
    consumer = make.consumer(lambda event: None)
    expose_metrics(consumer, metrics.registry)
    assert metrics("pgq_consumer_connected") == 0
    running = make.run(consumer)
    eventually(lambda: metrics("pgq_consumer_connected") == 1)
    running.stop()
    assert metrics("pgq_consumer_connected") == 0


def test_names_that_are_taken_and_what_is_no_consumer_are_refused(make):
    taken = CollectorRegistry(auto_describe=True)
    Counter("pgq_consumer_events", "of somebody else", registry=taken)
    with pytest.raises(ValueError, match="pgq_consumer_events"):
        expose_metrics(make.consumer(lambda event: None), taken)
    wrong: Any = "billing"
    with pytest.raises(TypeError, match="expose_metrics takes a consumer, not str"):
        expose_metrics(wrong)


def test_the_times_of_a_large_batch_take_bounded_memory_and_lose_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.now(timezone.utc)
    monkeypatch.setattr(histograms, "time", SimpleNamespace(time=now.timestamp))
    inserted, ages = InsertTimes(), HandlerTimes().ages
    for number in range(30):
        step = [now - timedelta(milliseconds=number * 1000 + k) for k in range(1000)]
        inserted.add([Event(1, time, 1, None, None, None) for time in step])
        assert len(inserted._counts) <= MOST
    inserted.done(ages)
    buckets, total = ages.buckets()
    assert buckets[-1] == ("+Inf", 30_000)
    assert dict(buckets)["30.0"] >= 29_000
    assert 0 < total < 30_000 * 60


def test_a_histogram_counts_a_value_at_its_bound_below_it() -> None:
    histogram = Histogram((1, 5))
    for value in (0.5, 1, 3, 5, 7):
        histogram.observe(value, times=2)
    assert histogram.buckets() == ([("1.0", 4), ("5.0", 8), ("+Inf", 10)], 33.0)
