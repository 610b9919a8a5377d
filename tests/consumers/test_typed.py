"""Typed events in consumers: each type has its method, and what does not fit is dead."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

import pgqpy
from pgqpy.consumers import (
    AsyncConsumer,
    AsyncTransactionalConsumer,
    Consumer,
    Retry,
    TransactionalConsumer,
    on,
)
from tests.consumers.harness import CONSUMER, QUEUE

seen: list[Any] = []


class Placed(pgqpy.TypedEvent, queue=QUEUE, type="placed", key="customer"):
    customer: str
    total: Decimal


@pgqpy.typed_event(queue=QUEUE, type="paid")
@dataclass
class Paid:
    amount: Decimal


class Plain(Consumer):
    @on(Placed)
    def placed(self, event, placed):
        seen.append((event.extra1, placed))

    @on(Paid)
    def paid(self, event, paid):
        seen.append((event.type, paid))


class Async(AsyncConsumer):
    @on(Placed)
    async def placed(self, event, placed):
        seen.append((event.extra1, placed))

    @on(Paid)
    async def paid(self, event, paid):
        seen.append((event.type, paid))


class Transactional(TransactionalConsumer):
    @on(Placed)
    def placed(self, event, placed, connection):
        assert connection.execute("select 1").fetchone() == (1,)
        seen.append((event.extra1, placed))

    @on(Paid)
    def paid(self, event, paid, connection):
        seen.append((event.type, paid))


class AsyncTransactional(AsyncTransactionalConsumer):
    @on(Placed)
    async def placed(self, event, placed, connection):
        await connection.execute("select 1")
        seen.append((event.extra1, placed))

    @on(Paid)
    async def paid(self, event, paid, connection):
        seen.append((event.type, paid))


KINDS: list[Any] = [Plain, Async, Transactional, AsyncTransactional]


@pytest.fixture(params=[False, True], ids=["plain", "shared"])
def settings(request):
    """The settings of a consumer of each mode, and that nothing was handled."""
    seen.clear()
    name = "sharing" if request.param else CONSUMER
    return {"queue": QUEUE, "name": name, "shared": request.param or None}


def drain(consumer: Any) -> Any:
    result = consumer.drain()
    return asyncio.run(result) if inspect.iscoroutine(result) else result


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_goes_to_its_method_and_what_does_not_fit_is_dead(queue, dsn, kind, settings):
    consumer = kind(dsn, **settings)
    drain(consumer)
    queue.client.insert(Placed(customer="ann", total=Decimal("12.50")))
    queue.client.insert_event(QUEUE, "placed", {"total": "much"})
    queue.client.insert_event(QUEUE, "unknown", "{")
    queue.client.insert(Paid(Decimal("1.5")))
    assert drain(consumer) == (3, 0, 1)
    assert seen[-2:] == [
        ("ann", Placed(customer="ann", total=Decimal("12.50"))),
        ("paid", Paid(Decimal("1.5"))),
    ]
    (dead,) = queue.client.get_dead_events(QUEUE, settings["name"])
    assert (dead.dead_error, dead.dead_tries) == ("pgqpy.errors.UnreadableEvent", 1)
    assert dead.dead_reason == (
        "the data is no Placed: customer: Field required; total: Input should be a valid decimal"
    )


def test_unreadable_event_is_dead_also_where_errors_end_the_run(queue, dsn, settings):
    consumer = Plain(dsn, on_error="stop", **settings)
    drain(consumer)
    queue.client.insert_event(QUEUE, "placed", None)
    assert drain(consumer) == (0, 0, 1)


def test_an_error_of_a_typed_handler_is_retried_as_any_other(queue, dsn, settings):
    class Failing(Consumer):
        @on(Placed)
        def placed(self, event, placed):
            raise Retry(after=3600)

    consumer = Failing(dsn, **settings)
    drain(consumer)
    queue.client.insert(Placed(customer="ann", total=Decimal(1)))
    assert drain(consumer) == (0, 1, 0)


@pytest.mark.parametrize("on_error", ["retry", "stop"])
def test_retry_with_max_attempts_makes_the_event_dead(queue, dsn, settings, log, on_error):
    class Waiting(Consumer):
        def process_event(self, event):
            raise Retry(after=0, reason="closed", max_attempts=3)

    consumer = Waiting(dsn, on_error=on_error, **settings)
    drain(consumer)
    queue.client.insert(Paid(Decimal(1)))
    assert drain(consumer) == (0, 2, 1)
    (dead,) = queue.client.get_dead_events(QUEUE, settings["name"])
    assert (dead.dead_tries, dead.dead_reason) == (3, "again in 0 s: closed")
    assert [each.levelname for each in log.records if "is dead" in each.message] == ["ERROR"]


EVENT = pgqpy.Event(1, None, 1, None, "paid", '{"amount": 3}')  # type: ignore[arg-type]  # no time
OTHER = EVENT._replace(type="other")


def test_process_event_gets_the_types_without_a_method():
    class Base(Plain):
        def process_event(self, event):
            seen.append(event.type)

    seen.clear()
    for consumer in (Base("", **NAMES), type("Heir", (Base,), {})("", **NAMES)):
        consumer.process_event(EVENT)
        consumer.process_event(OTHER)
    assert seen == [("paid", Paid(Decimal(3))), "other"] * 2


NAMES: Any = {"queue": QUEUE, "name": CONSUMER}


def test_methods_of_mixins_and_of_several_bases_are_called():
    class Paying:
        @on(Paid)  # type: ignore[type-var]  # a mixin is no consumer yet
        def paid(self, event, paid):
            seen.append("mixin")

    class Placing(Consumer):
        @on(Placed)
        def placed(self, event, placed):
            seen.append("base")

    class Both(Paying, Placing):
        queue, name = QUEUE, CONSUMER

    class Later(Placing, Paying):
        queue, name = QUEUE, CONSUMER

    for kind in (Both, Later):
        seen.clear()
        for event in (
            pgqpy.Event.make("paid", {"amount": "1"}),
            pgqpy.Event.make("placed", {"customer": "ann", "total": "1"}),
        ):
            kind("").process_event(event)
        assert seen == ["mixin", "base"]


def test_a_subclass_replaces_a_method():
    class Heir(Plain):
        def placed(self, event, placed):
            """Replace the method, without a decorator."""
            seen.append("heir")

        @on(Paid)
        def paid(self, event, paid):
            seen.append(("heir", paid))

    seen.clear()
    Heir("", **NAMES).process_event(EVENT)
    data = '{"customer": "ann", "total": 1}'
    Heir("", **NAMES).process_event(EVENT._replace(type="placed", data=data))
    assert seen == [("heir", Paid(Decimal(3))), "heir"]  # seen is no constant


def test_async_process_event_gets_the_types_without_a_method():
    class Both(Async):
        async def process_event(self, event):
            seen.append(event.type)

    async def run():
        await Both("", **NAMES).process_event(EVENT)
        await Both("", **NAMES).process_event(OTHER)
        await Async("", **NAMES).process_event(OTHER)

    seen.clear()
    asyncio.run(run())
    assert seen == [("paid", Paid(Decimal(3))), "other"]


def waiting(self, event, placed):
    """Handle a typed event."""


async def awaiting(self, event, placed):
    """Handle a typed event."""


def yielding(self, event, placed):
    yield


@pytest.mark.parametrize(
    ("base", "handler", "says"),
    [
        (Consumer, awaiting, "placed must be a plain def"),
        (AsyncConsumer, waiting, "placed must be async def"),
        (Consumer, yielding, "placed must not `yield`"),
        (TransactionalConsumer, waiting, r"placed must take \(self, event, Placed, connection\)"),
        (Plain, waiting, "are both for events of type 'placed'"),
    ],
)
def test_a_wrong_method_is_refused_when_its_class_is_made(base, handler, says):
    name = "other" if base is Plain else "placed"
    marked = on(Placed)(type(handler)(handler.__code__, {}, "handler"))
    with pytest.raises(TypeError, match=says):
        type("Wrong", (base,), {name: marked})


def test_a_wrong_process_event_is_found_behind_the_typed_methods():
    class Wrong(Plain):
        def process_event(self):  # type: ignore[override]  # the mistake
            """Take no event."""

    with pytest.raises(TypeError, match=r"process_event must take \(self, event\)"):
        Wrong("", **NAMES)


def test_on_takes_a_class_of_typed_events_once():
    with pytest.raises(TypeError, match="int is no typed event"):
        on(int)
    with pytest.raises(TypeError, match="two @on"):
        on(Paid)(Plain.placed)  # type: ignore[arg-type]  # the mistake


def test_settings_are_keywords_of_a_class_too():
    class Billing(Consumer, queue=QUEUE, name=CONSUMER, max_retries=3):
        def process_event(self, event):
            """Handle an event."""

    assert (Billing("").name, Billing("").max_retries) == (CONSUMER, 3)
    with pytest.raises(TypeError, match="Wrong has no setting 'leese': did you mean lease"):
        type("Wrong", (Consumer,), {}, leese=5)
    with pytest.raises(TypeError, match=r"Wrong\.fetch_size is gone: part_size bounds"):
        type("Wrong", (Consumer,), {}, fetch_size=5)
