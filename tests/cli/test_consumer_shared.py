"""`pgqpy consumer register|set|list|show|unregister` of a shared consumer."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from pgqpy import calls
from tests.cli.support import Run, RunJson, failed_with

if TYPE_CHECKING:
    import pgqpy

WHERE = ("orders", "letters")
SET = ("consumer", "set", *WHERE)
REGISTER = ("consumer", "register", *WHERE)


@pytest.fixture
def letters(client: pgqpy.Client) -> pgqpy.Client:
    """A client, and six events of three keys for a shared consumer: two wait, none is claimed."""
    client.create_queue("orders")
    client.register_consumer(*WHERE, shared=True, key="extra1")
    for key in "aaabbc":
        client.insert_event("orders", "placed", key, extra1=key)
    client.tick_queue("orders")
    return client


def test_settings_that_are_not_named_stay(run: Run, orders: pgqpy.Client) -> None:
    done = run("consumer", "set", "orders", "billing", "mode=shared", "key=extra1", "per_key=3")
    assert done.stderr == "billing on orders: shared by extra1, per_key 3\n"
    for settings, told in (
        ("limit_in_flight=50 rate=30/min", "by extra1, per_key 3, limit_in_flight 50, rate 0.5/s"),
        ("rate=none", "by extra1, per_key 3, limit_in_flight 50"),
        ("mode=shared per_key=1", "by extra1, limit_in_flight 50"),
        ("limit_in_flight=none", "by extra1"),
        ("mode=shared", "by extra1 already"),
        ("mode=shared key=none", ""),
    ):
        done = run("consumer", "set", "orders", "billing", *settings.split())
        assert done.stderr == f"billing on orders: shared {told}".rstrip() + "\n"
    assert run("consumer", "set", "orders", "billing", "mode=plain").stderr.endswith(": plain\n")


@pytest.mark.parametrize(
    ("settings", "exit_code", "told"),
    [
        ("lanes=8 key=extra1", 2, "lanes is gone: mode=shared key=extra1 keeps the order"),
        ("key=extra1", 2, "key needs mode="),
        ("mode=plain per_key=2", 2, "per_key is for mode=shared"),
        ("mode=shared key=data", 2, "key is one of type, extra1"),
        ("mode=shared per_key=2", 1, "per_key"),
        ("limit_in_flight=many", 2, "'many' is not a valid integer"),
        ("rate=100", 2, "write 100/s, 30/min, 5/h"),
        ("rate=100/s", 1, "billing"),
    ],
)
def test_what_is_wrong_is_told_and_nothing_changes(
    run: Run, run_json: RunJson, orders: pgqpy.Client, settings: str, exit_code: int, told: str
) -> None:
    result = run("consumer", "set", "orders", "billing", "type=a", *settings.split())
    assert failed_with(result, exit_code, told)
    shown = run_json("consumer", "show", "orders", "billing")
    assert (shown["mode"], shown["filter"]) == ("plain", None)


def test_register_makes_it_shared_with_its_key(run: Run, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    new = run(*REGISTER, "--shared", "--key", "extra1", "--type", "a")
    assert new.stderr == "registered letters on orders: takes types a\n"
    (found,) = client.call(calls.sharing.get_inflight())
    assert (found.order_key, found.per_key) == ("extra1", 1)
    other = run(*REGISTER, "--shared", "--key", "extra2")
    assert failed_with(other, 1, "extra1", "extra2", "pgqpy consumer set")
    assert failed_with(run(*REGISTER, "--key", "extra2"), 2, "--key needs --shared")


def test_show_and_list_tell_what_is_in_flight_and_who_has_it(
    run: Run, run_json: RunJson, letters: pgqpy.Client
) -> None:
    holder = letters.call(
        calls.inflight.hold(*WHERE, "app1:7", timedelta(minutes=1), keeps_session=False)
    )
    claim = letters.call(calls.inflight.claim(*WHERE, 1, timedelta(minutes=1), holder, alone=True))
    assert claim
    shown = run_json("consumer", "show", *WHERE)
    assert [shown[name] for name in ("mode", "order_key", "in_flight", "queue_length")] == [
        "shared", "extra1", 6, 6,
    ]  # fmt: skip
    assert [shown[name] for name in ("fresh", "claimed", "waiting", "crashes")] == [2, 1, 3, 0]
    (told,) = shown["holders"]
    assert (told["name"], told["events"]) == ("app1:7", 1)
    assert [(key["key"], key["waiting"]) for key in shown["waiting_keys"]] == [("a", 2), ("b", 1)]
    text = run("consumer", "show", *WHERE).stdout
    assert re.search(r"\nprocess app1:7 +1 event\(s\) claimed, the first .* ago\n", text)
    behind = rf"event {claim.events[0].id}, claimed, attempt 1"
    assert re.search(rf"\nkey a +2 event\(s\) wait behind {behind}\n", text)
    (row,) = run("consumer", "list").stdout.splitlines()[1:]
    assert row.endswith("1 process(es)")
    assert " shared " in row


def test_unregister_asks_before_events_in_flight_are_lost(run: Run, letters: pgqpy.Client) -> None:
    letters.receive(*WHERE, wait=0, key="extra1")
    refused = run("consumer", "unregister", *WHERE)
    assert failed_with(refused, 1, "6 event(s) in flight", "--force")
    assert run("consumer", "unregister", *WHERE, "--force").exit_code == 0
    assert letters.get_consumer_info() == []
