"""What a consumer class must say, and what is refused before anything connects."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from enum import Enum
from typing import Any

import pytest

from pgqpy.consumers import AsyncConsumer, Consumer, ConsumerSettings, TransactionalConsumer
from pgqpy.consumers.settings import GONE, SETTINGS, fix, per_second, unfix


class Whole(Consumer):
    """Everything there."""

    queue, name = "orders", "billing"

    def process_event(self, event):
        """Do nothing."""


def test_a_whole_class_is_accepted_with_settings_of_one_instance():
    consumer = Whole("dbname=x", part_size=7, min_interval=timedelta(seconds=1), min_count=3)
    assert (consumer.part_size, Whole.part_size) == (7, 10_000)


def test_the_settings_are_the_public_attributes():
    assert set(SETTINGS) == {
        "queue", "name", "filter", "shared", "concurrency", "key", "per_key", "limit_in_flight",
        "rate", "limit", "lease", "queues", "stop_timeout", "part_size", "min_count",
        "min_interval", "on_error", "max_retries", "give_up", "handler_timeout", "backoff",
        "signals",
    }  # fmt: skip


@pytest.mark.parametrize("gone", GONE)
def test_a_setting_that_is_gone_is_refused_and_names_what_to_do(gone):
    words = re.escape(f"{gone} is gone: {GONE[gone]}")
    with pytest.raises(TypeError, match=words):
        Whole(None, **{gone: 1})  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match=words):
        type("Part", (Whole,), {gone: 1})()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("on_eror", "on_error"),
        ("partsize", "part_size"),
        ("MAX_RETRIES", "max_retries"),
        ("max_retrys", "max_retries"),
        ("max_retry", "max_retries"),
        ("kye", "key"),
    ],
)
def test_a_misspelt_setting_is_refused_wherever_it_is_written(written, meant):
    words = f"{written}.*did you mean {meant}"
    with pytest.raises(TypeError, match=words):
        Whole(None, **{written: 1})  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match=words):
        type("Part", (Whole,), {written: 1})()
    consumer = Whole("dbname=x")
    setattr(consumer, written, 1)
    with pytest.raises(TypeError, match=words):
        consumer.run()


@pytest.mark.parametrize("written", ["keys", "Key", "kye"])
def test_a_misspelt_key_is_refused(written):
    """Without it, events of a key would be handled side by side."""
    with pytest.raises(TypeError, match=rf"Part\.{written} is no setting: did you mean key\?"):
        type("Part", (Whole,), {written: "extra1"})(concurrency=2)


def test_times_may_be_timedeltas():
    consumer = Whole(backoff=(timedelta(seconds=2), timedelta(minutes=1)))
    assert (consumer.retry_policy.base, consumer.retry_policy.maximum) == (2, 60)


class Word(str, Enum):
    ORDERS, BILLING, EXTRA = "orders", "billing", "extra1"


def test_members_of_an_enum_are_texts_while_it_runs():
    class Billing(Whole):
        queue, name = Word.ORDERS, Word.BILLING
        key: Any = Word.EXTRA

    consumer = Billing(filter={"type": [Word.ORDERS], Word.EXTRA: (Word.ORDERS,)})
    fix(consumer, SETTINGS)
    try:
        assert f"{consumer.queue} {consumer.name} {consumer.key}" == "orders billing extra1"
        assert f"{dict(consumer.filter or {})}" == "{'type': ('orders',), 'extra1': ('orders',)}"
    finally:
        unfix(consumer)
    assert consumer.name is Word.BILLING


def test_attributes_of_its_own_are_fine():
    class Own(Whole):
        currency, table, on_start, batch_size = "EUR", "sums", None, 7
        timeout: float = 3.0

        def __init__(self, dsn=None):
            super().__init__(dsn)
            self.session = self.retries = self.total = 0

        def on_errors(self):
            """Be a method."""

    Own()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("queue", ""),
        ("queue", None),
        ("name", ""),
        ("name", 7),
        ("name", "a\0b"),
        ("shared", 1),
        ("concurrency", 0),
        ("concurrency", 1_000_000),
        ("concurrency", True),
        ("key", "extra5"),
        ("key", lambda event: event.id),
        ("per_key", 0),
        ("per_key", 10_001),
        ("limit_in_flight", 0),
        ("rate", "100"),
        ("rate", "0/s"),
        ("rate", "nan/s"),
        ("rate", -1),
        ("limit", 0),
        ("limit", 10_001),
        ("queues", []),
        ("queues", "orders"),
        ("queues", ["orders", "orders"]),
        ("stop_timeout", -1),
        ("signals", None),
        ("lease", 0.5),
        ("lease", -1),
        ("lease", "30"),
        ("lease", True),
        ("lease", math.inf),
        ("lease", 86_401),
        ("part_size", 0),
        ("part_size", -5),
        ("part_size", 1.5),
        ("part_size", True),
        ("part_size", None),
        ("part_size", 10**9),
        ("min_count", 0),
        ("min_interval", -1),
        ("min_interval", timedelta(seconds=-1)),
        ("on_error", "ignore"),
        ("max_retries", -1),
        ("max_retries", None),
        ("handler_timeout", 0),
        ("handler_timeout", "1"),
        ("give_up", ValueError),
        ("give_up", ("ValueError",)),
        ("give_up", (SystemExit,)),
        ("backoff", 1.0),
        ("backoff", (1.0,)),
        ("backoff", (-1, 10)),
        ("backoff", (1.0, math.inf)),
        ("backoff", (1.0, 0.5)),
        ("backoff", ("1", "2")),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(setting, value):
    with pytest.raises((TypeError, ValueError), match=f"Whole.{setting}"):
        Whole(**{setting: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lease": 20}, "lease is for shared consumers: set shared = True"),
        ({"limit": 7}, "limit is for shared consumers"),
        ({"on_error": "park"}, 'on_error = "park" is for shared consumers'),
        ({"on_error": "dead"}, 'on_error = "dead" is for shared consumers'),
        ({"shared": False, "concurrency": 2}, "shared is False, and concurrency makes it"),
        ({"shared": False, "key": "extra1"}, "shared is False, and key makes it"),
        ({"shared": True, "part_size": 5}, "part_size is for plain consumers"),
        ({"key": "type", "min_count": 5}, "min_count is for plain consumers"),
        ({"shared": True, "on_error": "park"}, 'on_error = "park" needs key'),
        ({"per_key": 2}, "per_key needs key"),
        ({"queues": ["a", "b"]}, "queue is not among its queues"),
    ],
)
def test_settings_of_the_other_kind_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Whole(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"shared": True},
        {"concurrency": 2},
        {"key": "extra1"},
        {"key": "type", "per_key": 3},
        {"limit_in_flight": 5},
        {"rate": 2.5},
        {"rate": "30/min"},
        {"queues": ["orders", "urgent"]},
    ],
)
def test_what_makes_a_consumer_shared(settings):
    assert Whole(**settings, lease=timedelta(seconds=40), limit=5).is_shared
    assert not Whole().is_shared


@pytest.mark.parametrize(
    ("rate", "wanted"), [(None, None), (7, 7), ("100/s", 100), ("30/min", 0.5), ("36/h", 0.01)]
)
def test_rates(rate, wanted):
    assert per_second(Whole(rate=rate).rate) == wanted


def alone(self, event):
    """Be a handler."""


def with_connection(self, event, connection):
    """Be a handler of a transactional consumer."""


async def awaited(self, event):
    """Be a handler for asyncio."""


NAMED = {"queue": "orders", "name": "billing"}
WRONG_CLASSES: list[tuple[Any, dict[str, Any], str]] = [
    (Consumer, {"name": "billing", "process_event": alone}, r"Wrong\.queue"),
    (Consumer, NAMED, "Wrong needs process_event or process_batch"),
    (Whole, {"process_batch": alone}, "Wrong needs process_event or process_batch, one of them"),
    (
        Consumer,
        {**NAMED, "process_batch": alone, "give_up": (ValueError,)},
        "give_up needs process_event",
    ),
    (
        TransactionalConsumer,
        {**NAMED, "process_event": alone},
        r"must take \(self, event, connection\)",
    ),
    (
        Consumer,
        {**NAMED, "process_event": with_connection},
        r"must take \(self, event\): a TransactionalConsumer gets",
    ),
    (Consumer, {**NAMED, "process_event": awaited}, "AsyncConsumer"),
    (AsyncConsumer, {**NAMED, "process_event": alone}, "async def"),
    (Consumer, {**NAMED, "process_event": alone, "key": alone}, "put the key into one of them"),
]


@pytest.mark.parametrize(("base", "members", "words"), WRONG_CLASSES)
def test_a_class_that_cannot_run_is_refused(base, members, words):
    with pytest.raises((TypeError, ValueError), match=words):
        type("Wrong", (base,), members)("dbname=x")


def test_a_handler_may_have_more_arguments_of_its_own():
    class Extra(Consumer):
        queue, name = "orders", "billing"

        def process_event(self, event, *, urgent=False):
            """Do nothing."""

    Extra()


def test_what_applications_need_is_public():
    import pgqpy.consumers

    assert pgqpy.consumers.__all__ == [
        *("AsyncClaimedList", "AsyncConsumer", "AsyncOpenBatch", "AsyncTransactionalConsumer"),
        *("BaseConsumer", "ClaimedList", "Consumer", "ConsumerSettings", "OpenBatch", "Retry"),
        *("TransactionalConsumer", "on"),
    ]  # fmt: skip


def test_the_typed_keywords_are_the_settings():
    assert tuple(ConsumerSettings.__annotations__) == SETTINGS
