"""Handlers that return before their work is done: refused at the start, or a failure."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import gc
from contextlib import contextmanager

import pytest

from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.consumers.handlers import HandlerFailed
from tests.consumers.harness import CONSUMER, QUEUE, Maker, in_transactions
from tests.support.waiting import eventually


async def waiting(*_arguments):
    """Be `async def`."""


def generating(*_arguments):
    """Be a generator."""
    yield


async def generating_async(*_arguments):
    """Be an async generator."""
    yield


class Waits:
    """An object with an `async def` to call."""

    async def __call__(self, *_arguments):
        """Do nothing."""


class Generates:
    """An object with a generator to call."""

    def __call__(self, *_arguments):
        """Do nothing."""
        yield


def plain(*_arguments):
    """Do nothing."""


def logged(function):
    """Decorate as most do, and drop the result."""

    @functools.wraps(function)
    def wrapper(*arguments):
        function(*arguments)

    return wrapper


def handling(base, handler, kind="event", *, transactional=False, **attributes):
    base = in_transactions(base, transactional)
    members = {"queue": QUEUE, "name": CONSUMER, f"process_{kind}": handler, **attributes}
    return type("Handling", (base,), members)


DOES_NOTHING = [
    generating,
    generating_async,
    logged(generating),
    logged(logged(generating_async)),
    functools.partialmethod(generating),
    functools.partial(generating, None),
    staticmethod(generating),
    Generates(),
    contextmanager(generating),
]


@pytest.mark.parametrize("kind", ["event", "batch"])
@pytest.mark.parametrize("base", [Consumer, AsyncConsumer])
@pytest.mark.parametrize("handler", DOES_NOTHING)
def test_a_generator_is_refused_at_the_start(base, handler, kind):
    with pytest.raises(TypeError, match=rf"Handling.process_{kind} must not `yield`"):
        handling(base, handler, kind)()


WAITS = [
    waiting,
    logged(waiting),
    functools.partialmethod(waiting),
    functools.partial(waiting, None),
    staticmethod(waiting),
    classmethod(waiting),
    Waits(),
]


@pytest.mark.parametrize("kind", ["event", "batch"])
@pytest.mark.parametrize("handler", WAITS)
def test_async_def_is_for_an_async_consumer_however_it_is_wrapped(handler, kind):
    with pytest.raises(TypeError, match="AsyncConsumer"):
        handling(Consumer, handler, kind)()
    handling(AsyncConsumer, handler, kind)()


@pytest.mark.parametrize(
    "handler", [print, HandlerFailed, plain, logged(plain), functools.partial(plain)]
)
def test_other_callables_are_accepted(handler):
    handling(Consumer, handler)()


def test_a_handler_set_after_the_start_is_looked_at_by_run():
    consumer = handling(Consumer, plain)()
    consumer.process_event = generating
    with pytest.raises(TypeError, match="must not `yield`"):
        consumer.run()


class Awaitable:
    """Something to await, of a library's own class."""

    def __await__(self):
        """Do nothing."""
        yield


UNFINISHED = {
    "coroutine": waiting,
    "generator": generating,
    "async_generator": generating_async,
    "Future": concurrent.futures.Future,
    "Awaitable": Awaitable,
}
FINISHED = {"int": int, "list": list, "iterator": lambda: iter([1]), "none": lambda: None}


@pytest.fixture
def start(make):
    """Start a consumer whose process_event returns `results[event.data]()`."""

    def starter(results, **attributes):
        def handler(event, *_connection):
            return results[event.data]()

        async def async_handler(event, *_connection):
            return results[event.data]()

        chosen = staticmethod(async_handler if make.asynchronous else handler)
        return make.run(handling(make.base, chosen, backoff=(1000, 1000), **attributes)(make.dsn))

    return starter


@pytest.mark.parametrize("transactional", [False, True])
def test_what_a_handler_returns_unfinished_is_its_failure_and_no_event_is_lost(
    queue, start, log, transactional
):
    start(UNFINISHED | FINISHED, transactional=transactional)
    queue.deliver(*FINISHED, *UNFINISHED)
    for name in UNFINISHED:
        article = "an" if name[0] in "aA" else "a"
        assert f"the handler returned {article} {name}, whose work was not done" in log.text
    assert len(queue.retry_delays()) == len(UNFINISHED)
    gc.collect()  # a coroutine that was never awaited would warn here, and fail the test


def test_a_batch_whose_handler_returns_unfinished_stays_open(queue, make, log):
    def handler(batch):
        list(batch)
        return waiting()

    async def async_handler(batch):
        _ = [event async for event in batch]
        return waiting()

    chosen = staticmethod(async_handler if make.asynchronous else handler)
    make.run(handling(make.base, chosen, "batch")(make.dsn))
    queue.insert("a")
    eventually(lambda: "a coroutine, whose work was not done" in log.text)
    assert queue.open_batch() is not None
    gc.collect()


def test_a_plain_handler_that_returns_a_task_is_awaited(queue, dsn):
    done = []

    async def work(event):
        done.append(event.data)

    @functools.wraps(work)
    def handler(event):
        return asyncio.create_task(work(event))

    maker = Maker(dsn, asynchronous=True)
    maker.run(handling(AsyncConsumer, staticmethod(handler))(dsn))
    queue.deliver("a")
    maker.close()
    assert done == ["a"]
