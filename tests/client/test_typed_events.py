"""Typed events: what a class says, and what insert stores or refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest

from pgqpy import InvalidEvent, TypedEvent, typed_event
from pgqpy.typed_events import row_of
from tests.client.either import Either


class OfShop(TypedEvent, queue="orders"):
    """An event of the shop."""


class Placed(OfShop, type="placed", key="customer"):
    customer: UUID
    total: Decimal
    on: date | None = pydantic.Field(default=None, alias="day")


@typed_event(queue="orders", type="paid", key="order")
@dataclass(frozen=True)
class Paid:
    order: int
    amount: Decimal = Decimal(0)

    @property
    def parts(self) -> list[int]:
        return [1]


ANN = UUID("6b1d6a3e-0000-4000-8000-0123456789ab")
PLACED = Placed(customer=ANN, total=Decimal("12.50"), day=date(2026, 1, 2))


async def test_insert_stores_the_fields_and_the_key_in_the_queue_of_the_class(
    either: Either,
) -> None:
    await either.create_queue("orders")
    await either.register_consumer("orders", "billing")
    await either.insert(PLACED)
    await either.insert(Paid(17))
    later = await either.insert(Paid(18), delay=timedelta(hours=1))
    once = {"dedup_key": "paid:19", "dedup_for": 60}
    assert await either.insert(Paid(19), **once) == await either.insert(Paid(19), **once)
    await either.tick_queue("orders")
    batch = await either.next_batch("orders", "billing")
    found = [event async for event in either.get_batch_events(batch)]
    assert [(event.type, event.json(), event.extra1) for event in found] == [
        ("placed", {"customer": str(ANN), "total": "12.50", "day": "2026-01-02"}, str(ANN)),
        ("paid", {"order": 17, "amount": "0"}, "17"),
        ("paid", {"order": 19, "amount": "0"}, "19"),
    ]
    assert [event.ev_id for event in await either.get_delayed_events("orders")] == [later]


def test_other_integrations_get_the_fields_to_insert() -> None:
    assert row_of(Paid(17, Decimal(1))) == ("orders", "paid", {"order": 17, "amount": "1"}, 17)


def spoilt(event: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        object.__setattr__(event, name, value)
    return event


class Sized(TypedEvent, queue="orders", type="sized"):
    parts: list[float]


class Renamed(TypedEvent, queue="orders", type="renamed"):
    total: int = pydantic.Field(default=0, serialization_alias="sum")
    left_out: int = pydantic.Field(default=0, exclude=True)


class Hidden(TypedEvent, queue="orders", type="hidden"):
    code: pydantic.SecretStr = pydantic.SecretStr("")
    seen: float | None = None


class Card(TypedEvent, queue="orders", type="card"):
    number: str

    @pydantic.field_validator("number")
    @classmethod
    def check(cls, number: str) -> str:
        """Quote the value, as one does."""
        if not number.isdigit():
            raise ValueError(f"{number} is no number of a card")
        return number


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (Paid("x"), "Paid: order: Input should be a valid integer"),  # type: ignore[arg-type]  # it is the mistake
        (spoilt(PLACED.model_copy(), total=object()), "Placed cannot be written as JSON"),
        (spoilt(PLACED.model_copy(), total="much", customer=1), "Placed: customer: .*; total: "),
        (spoilt(Sized(parts=[]), parts=["a"]), r"Sized: parts\.0: Input should be a valid number"),
        (Renamed(total=5), "Renamed: total comes back as another value"),
        (Hidden(code=pydantic.SecretStr("geheim")), "Hidden: code comes back as another value"),
        (Hidden(seen=float("inf")), "Hidden: seen comes back as another value"),
        (Paid("17"), "Paid: order comes back as another value"),  # type: ignore[arg-type]  # as CSV
        (spoilt(Card(number="1"), number="geheim"), "^Card: number: value_error$"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(event: Any, says: str) -> None:
    with pytest.raises(InvalidEvent, match=says) as caught:
        row_of(event)
    assert caught.value.field == "data"
    assert "\n" not in str(caught.value)


def test_a_key_is_a_single_value() -> None:
    kind = typed_event(queue="orders", type="paid", key="parts")(type("Parts", (Paid,), {}))
    with pytest.raises(InvalidEvent, match="Parts: the key parts is no single value"):
        row_of(kind(1))


def made(*bases: type[Any], **keywords: Any) -> Callable[[], object]:
    return lambda: type("Wrong", bases, {"__annotations__": {"id": int}}, **keywords)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (made(TypedEvent, type="placed"), 'Wrong needs queue="…"'),
        (made(TypedEvent, queue="orders", type=7), 'Wrong needs type="…": a text, not 7'),
        (made(OfShop, type="placed", key="customer"), "Wrong has no field 'customer'"),
        (made(OfShop, key="id"), 'Wrong has a key, and needs type="…" too'),
        (made(OfShop, typ="placed"), "Wrong has no keyword 'typ'"),
        (lambda: typed_event(queue="orders", type="a")(int), "int is no dataclass: write @typed"),
        (lambda: row_of(OfShop()), "OfShop names no type: write class OfShop"),
        (lambda: row_of({"id": 1}), "dict is no typed event: derive its class"),
        (lambda: row_of(made(Placed)()), "is no typed event"),
        (lambda: row_of(Opaque(Unknown())), "Opaque is no typed event: Unable to generate"),
    ],
)
def test_a_class_that_is_no_typed_event_says_what_to_write(make: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


class Unknown:
    """Of no form in JSON."""


@typed_event(queue="orders", type="opaque")
@dataclass
class Opaque:
    unknown: Unknown


def test_the_package_imports_pydantic_only_for_typed_events() -> None:
    code = "import sys, pgqpy, pgqpy.consumers; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
