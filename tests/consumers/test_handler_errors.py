"""Exceptions that are hard to tell, or to catch: one event fails, or the consumer ends in order."""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
from typing import Any

import psycopg
import pytest

from pgqpy.consumers import Retry, TransactionalConsumer
from tests.consumers.harness import CONSUMER, NOTE, QUEUE, patched
from tests.support.errors import Mute

# Does not tell what it is.
Masked = type("Masked", (Exception,), {"__class__": property(Mute.__str__)})


# Does not tell when its event is to come again.
Undecided = type("Undecided", (Retry,), {"after": property(Mute.__str__, lambda *_: None)})


def make_group():
    """Make an exception group, on Python 3.11 and later, that does not tell what is in it."""
    members, base = (
        {"exceptions": property(Mute.__str__)},
        getattr(builtins, "ExceptionGroup", None),
    )
    return type("Closed", (base,), members)("closed", [ValueError()]) if base else Mute()


def make_untraceable():
    place: Any = ("file", 1, 1, 5)
    return SyntaxError("its text is no str", place)


ODD = {
    "mute": Mute,
    "cancelled": asyncio.CancelledError,
    "cancelled in a thread": concurrent.futures.CancelledError,
    "masked": Masked,
    "undecided": lambda: Undecided(1),
    "group": make_group,
    "long": lambda: ValueError("x" * 1_000_000),
    "unprintable": lambda: ValueError("a\nb\0c\ud800\x1b[2J"),
    "untraceable": make_untraceable,
    "lost": lambda: psycopg.OperationalError("not the consumer's connection"),
}


@pytest.fixture(params=[False, True], ids=["plain", "transactional"])
def transactional(request):
    return request.param


def handler_of(errors, transactional):
    """Make a handler that raises `errors[event.data]()` where there is one."""

    def plain(event):
        if event.data in errors:
            error = errors[event.data]()
            raise error

    def in_transaction(event):
        yield NOTE, [event.data]
        plain(event)

    return in_transaction if transactional else plain


def test_an_odd_exception_fails_its_own_event_only(
    queue, client, make, effects, log, transactional
):
    make.start(handler_of(ODD, transactional), transactional=transactional, max_retries=0)
    queue.insert("a", *ODD, "b")
    queue.deliver("c")
    dead = client.get_dead_events(QUEUE, CONSUMER)
    assert {event.ev_data for event in dead} == set(ODD)
    assert all(event.dead_reason.isprintable() for event in dead)
    assert all(len(event.dead_reason) <= 1000 for event in dead)
    assert effects() == (["a", "b", "c"] if transactional else [])
    assert log.text.count("is dead") == len(ODD)
    assert len(log.text) < 100_000
    assert "lost its connection" not in log.text


@pytest.mark.parametrize("make_error", [Mute, asyncio.CancelledError])
def test_on_error_stop_raises_an_odd_exception_too(queue, make, effects, transactional, make_error):
    handler = handler_of({"bad": make_error}, transactional)
    queue.insert("a", "bad")
    with pytest.raises(make_error):
        make.start(handler, transactional=transactional, on_error="stop").join()
    assert queue.pending() > 0
    assert effects() == []


class Hard(BaseException):
    """Of no kind that an application may catch."""


def test_what_cannot_be_caught_ends_run_with_one_line_and_leaves_the_batch(
    queue, make, effects, log, transactional, subtests
):
    _, bad = queue.insert("a", "bad")
    for error in (SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Hard("x")):
        with subtests.test(repr(error)):
            log.clear()
            handler = handler_of({"bad": lambda error=error: error}, transactional)
            with pytest.raises(type(error)):
                make.start(handler, transactional=transactional).join()
            (told,) = [record for record in log.records if "ends" in record.message]
            assert f"the handler of event {bad} raised {type(error).__name__}" in told.message
            assert queue.pending() > 0
            assert effects() == []
            # Else a later run would finish the first event by itself.
            queue.client.connection.execute("update pgq.position set pos_attempts = null")


def failing_batches(faults, seen):
    """Make a process_batch that appends the data to `seen`, after one call for each fault."""

    def fail(fault):
        if isinstance(fault, BaseException):
            raise fault

    def process_batch(self, batch, *connection):
        datas = [event.data for event in batch]
        if faults:
            fail(fault := faults.pop())
            fault(*connection)
        seen.append(datas)

    return process_batch


def test_after_an_odd_exception_of_process_batch_the_batch_is_delivered_again(
    queue, make_sync, log, transactional
):
    faults = [Mute(), asyncio.CancelledError(), make_untraceable()]
    if transactional:
        faults.append(lambda connection: connection.close())
    count, seen = len(faults), list[list[str]]()
    made = {"process_batch": failing_batches(faults, seen), "transactional": transactional}
    make_sync.start(**made, backoff=(0.001, 3600.0))
    queue.deliver("a", "b")
    assert seen[-1] == ["a", "b"]
    assert log.text.count("failed and stays unfinished") == count
    assert "lost its connection" not in log.text


@pytest.mark.parametrize("error", [SystemExit(3), Hard("x")], ids=repr)
def test_what_cannot_be_caught_in_process_batch_ends_run(
    queue, make_sync, log, transactional, error
):
    queue.insert("a")
    process_batch = failing_batches([error], [])
    with pytest.raises(type(error)):
        make_sync.start(process_batch=process_batch, transactional=transactional).join()
    (told,) = [record for record in log.records if "ends" in record.message]
    assert "the handler of batch" in told.message
    assert queue.pending() > 0


def test_events_that_always_lose_the_connection_are_retried_alone(queue, make, effects, log):
    """They end the server's process, say; the others must not wait for them for ever."""

    def handler(event):
        yield NOTE, [event.data]
        if event.data == "bad":
            yield "select pg_terminate_backend(pg_backend_pid())", None

    with patched("consumer.RECONNECT_BASE", 0.001):
        make.start(handler, transactional=True, backoff=(1000, 1000))
        queue.deliver("a", "bad", "b", "bad")
    assert effects() == ["a", "b"]
    assert len(queue.retry_delays()) == 2
    assert log.text.count("lost its connection") == 6


def begun_pipeline(connection):
    connection.pgconn.enter_pipeline_mode()


def begun_copy(connection):
    connection.pgconn.send_query(b"copy effect (data) from stdin")


def begun_transaction(connection):
    block = connection.transaction()
    block.__enter__()
    return block  # kept: its end would end it


def begun_stream(connection):
    stream = connection.cursor().stream("select generate_series(1, 9)")
    next(stream)
    return stream  # kept: it holds psycopg's lock


def closed(connection):
    connection.close()


@pytest.mark.parametrize(
    "begin", [begun_pipeline, begun_copy, begun_transaction, begun_stream, closed]
)
def test_what_a_handler_leaves_open_or_closes_on_the_connection_is_its_failure(
    queue, make_sync, effects, log, begin
):
    kept = []

    class Leaving(TransactionalConsumer):
        queue, name, backoff = QUEUE, CONSUMER, (1000, 1000)

        def process_event(self, event, connection):
            if event.data == "bad":
                kept.append(begin(connection))
            else:
                connection.execute(NOTE, [event.data])

    running = make_sync.run(Leaving(make_sync.dsn))
    queue.deliver("a", "bad", "b")
    running.stop()
    assert effects() == ["a", "b"]
    assert len(queue.retry_delays()) == 1
    left = "left a statement, pipeline, COPY, stream or transaction() open" in log.text
    assert left == (begin is not closed)
    assert ("lost its connection" in log.text) == left
