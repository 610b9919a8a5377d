"""Consumers with Django's ORM: exactly once, whatever a handler does or meets."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, close_old_connections, connection, connections, transaction
from django.db.models import F
from store.models import Order, Total

import pgqpy
from pgqpy.django import Consumer, emit
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("dsn")

STATE = """
    select current_setting('TimeZone'), timestamptz '2026-11-22 00:00+00', '{"a": 1}'::jsonb,
           inet '10.0.0.1', current_user, current_setting('search_path')"""


class Totals(Consumer):
    queue = "orders"
    name = "totals"
    backoff = (0.0, 0.0)

    def process_event(self, event: Any) -> None:
        total, _ = Total.objects.get_or_create(customer=event.extra1)
        Total.objects.filter(pk=total.pk).update(orders=F("orders") + 1)
        self.after(event)

    def after(self, event: Any) -> None:
        """Do what a test wants."""


def consumer(after: Callable[[Any], None], **settings: Any) -> Totals:
    return type("Totals", (Totals,), {"after": lambda _, event: after(event)})(**settings)


def counted() -> dict[str, int]:
    return dict(Total.objects.values_list("customer", "orders"))


def failing_first(do: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Do it until an event of type `bad` is retried."""
    return lambda event: do(event) if event.type == "bad" and event.retry is None else None


def place(*kinds: str) -> None:
    for number, kind in enumerate(kinds):
        emit("orders", kind, key=f"customer {number}")


def test_a_failed_event_is_undone_alone_and_counted_when_it_comes_again() -> None:
    place("good", "bad", "good")
    drained = consumer(failing_first(lambda _: 1 / 0)).drain(retries=True)
    assert drained.retried == 1
    assert counted() == {"customer 0": 1, "customer 1": 1, "customer 2": 1}


def test_the_handler_uses_the_transaction_that_finishes_the_batch(client: pgqpy.Client) -> None:
    ids = set()

    def after(_event: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_current_xact_id()::text, pg_backend_pid()")
            ids.add((*cursor.fetchone(), connection.connection.info.backend_pid))
        assert client.connection.execute("select from store_total").fetchall() == []
        with pytest.raises(DatabaseError), transaction.atomic():
            Order.objects.create(customer="undone", total=1)
            Total.objects.create(customer="customer 0")  # it is there
        with transaction.atomic():
            Order.objects.create(customer="kept", total=1)

    place("good", "good")
    consumer(after).drain(raise_errors=True)
    ((_, pid, own_pid),) = ids
    assert pid == own_pid
    assert [order.customer for order in Order.objects.all()] == ["kept", "kept"]


def test_an_emitted_event_commits_with_the_batch() -> None:
    def after(event: Any) -> None:
        if event.type == "bad":
            emit("orders", "follows", key=event.extra1)
            if event.retry is None:
                raise ZeroDivisionError

    place("bad")
    consumer(after).drain(retries=True)
    assert counted() == {"customer 0": 2}


REFUSED: dict[str, Any] = {
    "durable atomic": lambda: transaction.atomic(durable=True).__enter__(),
    "commit": transaction.commit,
    "rollback": transaction.rollback,
    "set_autocommit": lambda: transaction.set_autocommit(True),
    "close": lambda: connection.close(),  # noqa: PLW0108  # that of the moment
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_handler_cannot_end_the_transaction(what: str) -> None:
    place("good", "bad")
    drained = consumer(failing_first(lambda _: REFUSED[what]())).drain(retries=True)
    assert drained.retried == 1
    assert counted() == {"customer 0": 1, "customer 1": 1}


def raw_error(_event: Any) -> None:
    with connection.cursor() as cursor, suppress(DatabaseError):
        cursor.execute("select 1 / 0")


@pytest.mark.parametrize("swallow", [raw_error, lambda _: transaction.set_rollback(True)])
def test_a_swallowed_error_fails_the_event_and_nothing_of_it_stays(
    swallow: Any, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []

    def after(event: Any) -> None:
        transaction.on_commit(lambda: called.append(event.id))
        swallow(event)

    place("good", "bad")
    drained = consumer(failing_first(after)).drain(retries=True)
    assert drained.retried == 1
    assert "the handler went on after an error of the database" in caplog.text
    assert called == []
    assert counted() == {"customer 0": 1, "customer 1": 1}


def test_on_commit_is_called_once_after_the_commit_and_never_for_a_failed_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called: list[tuple[str, bool]] = []

    def after(event: Any) -> None:
        def note() -> None:
            called.append((event.extra1, Total.objects.filter(pk=event.extra1).exists()))
            raise LookupError("of on_commit")

        transaction.on_commit(note)
        if event.type == "bad":
            raise ValueError

    place("good", "bad", "good")
    consumer(after, give_up=(ValueError,)).drain()
    assert called == [("customer 0", True), ("customer 2", True)]
    assert "of on_commit" in caplog.text
    assert counted() == {"customer 0": 1, "customer 2": 1}


def test_on_commit_is_not_called_for_an_event_whose_constraint_fails_at_the_end(
    client: pgqpy.Client,
) -> None:
    client.connection.execute(
        "create table checked (n int unique deferrable initially deferred);"
        "insert into checked values (1)"
    )
    called = []

    def after(event: Any) -> None:
        transaction.on_commit(lambda: called.append(event.type))
        with connection.cursor() as cursor:
            cursor.execute("insert into checked values (%s)", [1 if event.type == "bad" else 2])

    place("good", "bad")
    drained = consumer(after, max_retries=0).drain()
    assert drained.dead == 1
    assert called == ["good"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_collision_repeats_the_transaction_without_a_retry(inside: bool) -> None:
    deliveries = []

    def after(event: Any) -> None:
        deliveries.append(event.retry)
        with transaction.atomic(savepoint=inside), connection.cursor() as cursor:
            if len(deliveries) < 3:  # the second one with a savepoint around each event
                cursor.execute("do $$ begin raise exception using errcode = '40001'; end $$")

    place("good")
    consumer(after).drain()
    assert deliveries == [None, None, None]
    assert counted() == {"customer 0": 1}


def test_a_lost_session_is_reopened_and_nothing_is_counted_twice(client: pgqpy.Client) -> None:
    lost: list[Any] = []

    def lose(event: Any) -> None:
        if event.type != "bad" or lost:
            return
        lost.append(event)
        pid = connection.connection.info.backend_pid
        client.connection.execute("select pg_terminate_backend(%s, 5000)", [pid])

    place("good", "bad", "good")
    consumer(lose).drain()
    assert counted() == {"customer 0": 1, "customer 1": 1, "customer 2": 1}


def test_the_connection_is_set_up_as_django_sets_up_its_own(
    client: pgqpy.Client, login: Callable[..., str]
) -> None:
    role = login("pgq_reader")
    client.connection.execute(f"grant all on all tables in schema public to {role}".encode())
    client.connection.execute("grant usage on schema public to public")
    options = {"assume_role": role, "options": "-c search_path=public"}
    seen = []

    def after(_event: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(STATE)
            seen.append(cursor.fetchone())

    client.insert_event("orders", "good", None, "customer 0")
    client.tick_queue("orders")
    connection.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict, "OPTIONS", options)
        patch.setitem(connection.settings_dict, "TIME_ZONE", "Europe/Prague")
        del connections["default"]  # it knows its time zone
        with consumer(after).running():
            eventually(lambda: seen)
        after(None)
        connection.close()
    del connections["default"]
    assert seen[0] == seen[1]
    assert seen[0][4] == role


def test_other_connections_are_closed_between_batches_but_not_in_atomic() -> None:
    def after(_event: Any) -> None:
        Order.objects.using("other").count()
        close_old_connections()  # of a library, say: it leaves the consumer's open

    place("good")
    consumer(after).drain(raise_errors=True)
    assert connections["other"].connection is None
    with transaction.atomic(using="other"):
        emit("orders", "good", key="ann", using="default")
        Totals().drain()
        assert Order.objects.using("other").count() == 0


def test_a_shared_consumer_parks_retries_and_gives_up(client: pgqpy.Client) -> None:
    client.unregister_consumer("orders", "totals")
    client.register_consumer("orders", "totals", shared=True, key="extra1")
    done: list[tuple[str, str]] = []

    class Shared(Totals):
        key, on_error, concurrency = "extra1", "park", 3

        def after(self, event: Any) -> None:
            if event.type == "dead":
                raise ZeroDivisionError
            if event.type == "bad" and not event.retry:
                raise ValueError
            transaction.on_commit(lambda: done.append((event.extra1, event.type)))

    for customer, kind in itertools.product(("ann", "bob", "cyd"), ("bad", "dead", "good")):
        emit("orders", kind, key=customer)
    drained = Shared(give_up=(ZeroDivisionError,)).drain(retries=True)
    assert (drained.dead, drained.retried) == (3, 3)
    assert counted() == {"ann": 2, "bob": 2, "cyd": 2}
    assert sorted(done, key=lambda each: each[0]) == [
        *itertools.product(("ann", "bob", "cyd"), ("bad", "good"))
    ]


def test_a_handler_of_batches_uses_the_orm() -> None:
    class Lists(Consumer):
        queue, name = "orders", "totals"

        def process_batch(self, batch: Any) -> None:
            Total.objects.bulk_create(Total(customer=event.extra1, orders=1) for event in batch)

    place("good", "good")
    Lists().drain()
    assert counted() == {"customer 0": 1, "customer 1": 1}


def test_without_setup_a_consumer_says_what_to_do() -> None:
    code = """
from django.conf import settings
settings.configure(DATABASES={"default": {}})
from pgqpy.django import Consumer
class Totals(Consumer):
    queue = name = "orders"
    def process_event(self, event): ...
Totals()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = done.stderr.strip().splitlines()[-1]
    assert "Django is not set up: run the consumer with `manage.py pgqpy run MODULE" in told
