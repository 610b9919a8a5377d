"""Events of Django's transactions."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils.dateparse import parse_duration
from django.utils.functional import lazystr
from store.models import Order

import pgqpy
from pgqpy.django import emit
from pgqpy.django.testing import emitted
from pgqpy.errors import InvalidArgument, InvalidEvent, QueueNotFound

pytestmark = pytest.mark.usefixtures("dsn")


def events(connection: Any) -> list[Any]:
    return connection.execute("select ev_type, ev_data, ev_extra1 from pgq.event_1").fetchall()


def test_an_event_commits_with_the_rows_of_its_transaction(connection: Any) -> None:
    with transaction.atomic():
        order = Order.objects.create(customer="ann", total=1)
        emit("orders", "placed", {"order": order}, key="ann")
        assert events(connection) == []
    assert events(connection) == [("placed", f'{{"order":{order.pk}}}', "ann")]


class Placed(pgqpy.TypedEvent, queue="orders", type="placed", key="customer"):
    customer: str


def test_a_typed_event_says_its_queue_type_and_key(connection: Any) -> None:
    emit(Placed(customer="ann"))
    assert events(connection) == [("placed", '{"customer":"ann"}', "ann")]


def test_an_event_is_rolled_back_with_its_transaction(connection: Any) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        emit("orders", "placed")
        raise ZeroDivisionError
    assert events(connection) == []


@pytest.mark.parametrize("binding", [False, True])
def test_an_error_leaves_the_transaction_usable(connection: Any, binding: bool) -> None:
    ours = connections["default"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ours.settings_dict, "OPTIONS", {"server_side_binding": binding})
        ours.close()
        with transaction.atomic():
            with pytest.raises(QueueNotFound, match="no queue 'nothing'"):
                emit("nothing", "placed")
            assert emit("orders", "placed") == 1
        ours.close()
    assert len(events(connection)) == 1


def test_values_of_django_have_a_form_in_json() -> None:
    order = Order.objects.create(customer="ann", total=1)
    data = {
        "order": order,
        "name": lazystr("tea"),
        "wait": timedelta(minutes=1),
        "total": Decimal("12.50"),
        "day": date(2026, 11, 22),
    }
    emit("orders", "placed", data, key=lazystr("ann"), extra2=order)
    (event,) = emitted("orders")
    assert json.loads(event.data or "") == {
        "order": order.pk,
        "name": "tea",
        "wait": "PT60S",
        "total": "12.50",
        "day": "2026-11-22",
    }
    assert parse_duration("PT60S") == data["wait"]
    assert (event.extra1, event.extra2) == ("ann", str(order.pk))


def test_an_instance_that_is_not_saved_is_refused() -> None:
    with pytest.raises(InvalidEvent, match=r"data \$\.order is of type Order"):
        emit("orders", "placed", {"order": Order()})


def test_the_options_are_those_of_insert_event(client: pgqpy.Client) -> None:
    first = emit("orders", "mail", extra4="x", dedup_key="welcome", dedup_for=60)
    assert emit("orders", "mail", dedup_key="welcome", dedup_for=60) == first
    later = emit("orders", "later", delay=3600)
    (delayed,) = client.get_delayed_events("orders")
    assert delayed.ev_id == later
    assert [event.type for event in emitted("orders")] == ["mail", "later"]
    assert emitted("orders", "mail")[0].extra4 == "x"


@pytest.mark.parametrize(
    ("using", "told"),
    [
        ("nowhere", "using is 'nowhere', and DATABASES has default, other, lite"),
        ("lite", "database 'lite' is sqlite, and queues are in PostgreSQL: name the alias"),
    ],
)
def test_a_wrong_alias_is_refused(using: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        emit("orders", "placed", using=using)


def test_the_setting_names_the_alias() -> None:
    with override_settings(PGQPY={"database": "nowhere"}), pytest.raises(InvalidArgument) as told:
        emit("orders", "placed")
    assert str(told.value).startswith("PGQPY[\"database\"] is 'nowhere'")
    with override_settings(PGQPY={"database": "other"}), transaction.atomic(using="other"):
        emit("orders", "placed")
        assert len(emitted("orders")) == 1
        assert emitted("orders", using="default") == []


def test_a_client_of_no_connection_names_the_right_call() -> None:
    connection.close()
    with pytest.raises(TypeError, match=r"pgqpy\.django\.emit"):
        pgqpy.Client(connection.connection)
