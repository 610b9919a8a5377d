"""A consumer that is behind takes many ticks at once."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.consumers import Consumer
from pgqpy.consumers.parts import MAX_INTERVAL, BatchLimits
from pgqpy.records import Batch
from tests.consumers.harness import CONSUMER, QUEUE

if TYPE_CHECKING:
    from pgqpy import Client

TICKS = 64
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


class Sizes(Consumer):
    queue, name, part_size = QUEUE, CONSUMER, 1000

    def __init__(self, dsn: str, **settings: Any) -> None:
        super().__init__(dsn, **settings)
        self.sizes: list[int] = []

    def process_batch(self, batch: Any) -> None:
        self.sizes.append(sum(1 for _ in batch))
        if sum(self.sizes) == TICKS:
            self.stop()


class TransactionalSizes(Sizes):
    is_transactional = True

    def process_batch(self, batch: Any, connection: Any) -> None:  # type: ignore[override]  # so
        super().process_batch(batch)


STEP = """
    update pgq.tick set tick_time = tick_time + %s::interval
     where tick_id > (select min(tick_id) + 1 from pgq.tick)"""  # the second batch spans it


@pytest.fixture
def behind(client: Client, new_orders: str) -> None:
    """Fill the queue with ticks of one event each."""
    for number in range(TICKS):
        client.insert_event(new_orders, "t", number)
        client.tick_queue(new_orders)


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize("clock_step", ["0", "-1 minute", "1 hour", "61 years"])
@pytest.mark.parametrize("consumer_class", [Sizes, TransactionalSizes])
def test_a_consumer_that_is_behind_takes_ticks_together_though_the_clock_was_set(
    client: Client, dsn: str, consumer_class: type[Sizes], clock_step: str
) -> None:
    client.connection.execute(STEP, [clock_step])
    consumer = consumer_class(dsn)
    consumer.run()
    assert sum(consumer.sizes) == TICKS
    assert len(consumer.sizes) < TICKS / 2


@pytest.mark.usefixtures("new_orders")
def test_a_consumer_with_a_filter_takes_more_ticks_together(client: Client, dsn: str) -> None:
    for number in range(TICKS * 10):
        client.insert_event(QUEUE, "taken" if number % 10 == 0 else "other", number)
        client.tick_queue(QUEUE)

    def batches(**settings: Any) -> int:
        client.register_consumer_at(QUEUE, CONSUMER, 1)
        consumer = Sizes(dsn, part_size=4, **settings)
        consumer.run()
        assert sum(consumer.sizes) == TICKS
        return len(consumer.sizes)

    client.set_consumer_filter(QUEUE, CONSUMER, types=["taken"])
    assert batches(filter={"type": ["taken"]}) < batches() / 2


@pytest.mark.parametrize(
    ("events", "most"), [(100, 1000), (10, 10_000), (0, 100_000), (1000, 1000), (3, 33_333)]
)
def test_the_size_of_a_batch_counts_what_a_filter_lets_through(events: int, most: int) -> None:
    limits = BatchLimits(most=1000)
    found = batch(1)._replace(event_seq=100)
    limits.count(found, events)
    limits.adapt(found)
    limits.adapt(found)
    assert limits.current[0] == most


@pytest.mark.usefixtures("behind")
def test_batches_grow_to_about_the_part_size_and_no_further(dsn: str) -> None:
    consumer = Sizes(dsn, part_size=4)
    consumer.run()
    assert max(consumer.sizes) <= 4


@pytest.mark.usefixtures("behind")
def test_limits_of_the_application_are_kept(dsn: str) -> None:
    consumer = Sizes(dsn, min_count=2)
    consumer.run()
    assert set(consumer.sizes) <= {2, 3, 4}  # PGQ: once, at most twice the limit


@pytest.mark.parametrize(
    ("seconds", "interval"), [(-60, None), (0, None), (61 * 365 * 86400, MAX_INTERVAL)]
)
def test_min_interval_is_never_out_of_range(seconds: int, interval: timedelta | None) -> None:
    limits = BatchLimits(most=1000)
    limits.adapt(batch(1))
    limits.adapt(batch(seconds))
    assert limits.current[1] == interval


def test_the_last_ticks_are_not_waited_for() -> None:
    limits = BatchLimits(most=1000)
    assert not limits.adapt(batch(1))
    assert current(limits) == (None, None)
    assert not limits.adapt(batch(1))
    assert current(limits) == (1000, timedelta(seconds=2))
    assert not limits.adapt(batch(3))
    assert current(limits) == (1000, timedelta(seconds=6))
    assert limits.adapt(None)  # fewer ticks than that: the next one, please
    assert current(limits) == (None, None)
    assert not limits.adapt(batch(1))
    assert not limits.adapt(None)  # nothing at all: now it waits


def current(limits: BatchLimits) -> Any:
    return limits.current


def batch(span: int) -> Batch:
    end = NOON + timedelta(seconds=span)
    return Batch(1, "q", "c", 2, 1, end, NOON, 0, 0)
