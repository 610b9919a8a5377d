"""Handlers of whole batches."""

from __future__ import annotations

import pytest

from pgqpy.consumers import (
    AsyncConsumer,
    Consumer,
    Retry,
    TransactionalConsumer,
)
from tests.consumers.harness import CONSUMER, QUEUE, in_transactions
from tests.support.waiting import eventually


class Collecting(Consumer):
    """Reads every batch to its end; `then` is called after it."""

    queue, name = QUEUE, CONSUMER

    def __init__(self, dsn, then=lambda batch, events: None, **settings):
        super().__init__(dsn, **settings)
        self.batches = []
        self.then = then

    def process_batch(self, batch, *_connection):
        events = list(batch)
        self.batches.append([event.data for event in events])
        self.then(batch, events)


class AsyncCollecting(AsyncConsumer):
    """The same for asyncio."""

    queue, name = QUEUE, CONSUMER

    def __init__(self, dsn, then=lambda batch, events: None, **settings):
        super().__init__(dsn, **settings)
        self.batches = []
        self.then = then

    async def process_batch(self, batch, *_connection):
        events = [event async for event in batch]
        self.batches.append([event.data for event in events])
        self.then(batch, events)


@pytest.fixture
def collect(make, dsn):
    """Run a consumer that collects batches."""
    kind = AsyncCollecting if make.asynchronous else Collecting

    def start(*args, **settings):
        chosen = in_transactions(kind, settings.pop("transactional", False))
        return make.run(chosen(dsn, *args, **settings))

    return start


def test_a_batch_tells_its_ticks(queue, client, collect):
    infos = []
    collect(lambda batch, events: infos.append(batch.info))
    queue.deliver("a")
    last_tick = client.get_queue_info(QUEUE)[0].last_tick_id
    (info,) = [info for info in infos if info.tick_id == last_tick]
    assert (info.queue, info.consumer) == (QUEUE, CONSUMER)


def test_an_event_can_be_set_aside(queue, collect):
    def retry_b(batch, events):
        for event in events:
            if event.data == "b" and not event.retry:
                batch.retry(event, after=1000)

    running = collect(retry_b)
    queue.deliver("a", "b", "c")
    (delay,) = queue.retry_delays()
    assert 900 < delay <= 1000
    queue.retry_now()
    queue.wait_until_finished()
    assert [data for batch in running.consumer.batches for data in batch] == ["a", "b", "c", "b"]


@pytest.mark.parametrize("transactional", [False, True])
def test_an_event_can_be_given_up(queue, client, collect, log, transactional):
    def give_up(batch, events):
        for event in events:
            if event.data == "b":
                batch.dead(event, "no such customer")
            elif event.data == "c":
                batch.dead(event, LookupError("gone"))

    collect(give_up, transactional=transactional)
    queue.deliver("a", "b", "c")
    dead = {each.ev_data: each for each in client.get_dead_events(QUEUE, CONSUMER)}
    told = {data: (each.dead_error, each.dead_reason) for data, each in dead.items()}
    assert told == {"b": (None, "no such customer"), "c": ("LookupError", "gone")}
    assert (dead["b"].dead_traceback, dead["c"].dead_traceback) == (None, "LookupError: gone")
    assert "is dead: no such customer" in log.text
    assert "is dead\nLookupError: gone" in log.text


def test_stop_during_the_backoff_ends_run(queue, collect):
    def fail(batch, events):
        raise ValueError("never")

    running = collect(fail, backoff=(3600, 3600))
    queue.insert("a")
    eventually(lambda: running.consumer.batches)
    running.stop()
    assert queue.open_batch() is not None


def test_retry_raised_for_a_batch_sets_the_delay(queue, collect):
    def fail_once(batch, events):
        if len(running.consumer.batches) == 1:
            raise Retry(after=0.01)

    running = collect(fail_once, backoff=(3600, 3600), on_error="stop")
    queue.deliver("a")
    assert running.consumer.batches[:2] == [["a"]] * 2


def test_on_error_stop_raises_what_process_batch_raised(queue, collect):
    failure = ValueError("stop")

    def fail(batch, events):
        raise failure

    queue.insert("a")
    with pytest.raises(ValueError) as caught:
        collect(fail, on_error="stop").join()
    assert caught.value is failure
    assert queue.open_batch() is not None


class Transferring(TransactionalConsumer):
    """Writes a whole batch in its transaction."""

    queue, name = QUEUE, CONSUMER
    fail = False

    def process_batch(self, batch, connection):
        for event in batch:
            connection.execute("insert into effect values (%s)", [event.data])
        if self.fail:
            self.fail = False
            raise ValueError("once")


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("part_size", [2, 10])
def test_a_transactional_batch_has_its_effects_once(
    queue, make_sync, dsn, connection, fail, part_size
):
    connection.execute("create table effect (data text)")
    consumer = Transferring(dsn, part_size=part_size, backoff=(0.01, 3600.0))
    consumer.fail = fail
    make_sync.run(consumer)
    queue.deliver("a", "b", "c", "d", "e")
    rows = connection.execute("select data from effect").fetchall()
    assert rows == [(data,) for data in "abcde"]


def test_a_batch_that_its_handler_kept_refuses_to_be_used_later(queue, collect):
    kept = []
    collect(lambda batch, events: kept.append((batch, events[0])))
    queue.deliver("a")
    batch, event = kept[0]
    for late in (lambda: batch.retry(event, 1), lambda: batch.dead(event, "late")):
        with pytest.raises(RuntimeError, match="process_batch has returned"):
            late()


@pytest.mark.parametrize("transactional", [False, True])
def test_setting_aside_what_is_not_of_the_batch_fails_the_batch_only(
    queue, collect, log, transactional
):
    ways = [lambda event: event._replace(id=999), lambda event: event.id, lambda event: event]
    left = iter(ways)

    def then(batch, events):
        if events[0].retry is None:
            batch.retry(next(left)(events[0]), 0)

    collect(then, backoff=(0.01, 3600.0), transactional=transactional)
    queue.deliver("a", "b")
    assert queue.retry_now() == 1
    assert log.text.count("failed and stays unfinished") == 2
