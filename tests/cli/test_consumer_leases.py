"""`pgqpy consumer list|show|unregister` of a consumer whose messages are leased."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from tests.cli.support import failed_with

if TYPE_CHECKING:
    from tests.cli.support import Run, RunJson

END = "update pgq.inflight set run_due = now() - interval '1 hour' where run_token = %s"


def receive(client: pgqpy.Client, limit: int) -> list[pgqpy.Message]:
    return client.receive("orders", "letters", limit=limit, wait=0)


@pytest.fixture
def five(client: pgqpy.Client) -> pgqpy.Client:
    """A client, and five events for the consumer `letters`."""
    client.create_queue("orders")
    assert receive(client, 1) == []
    for data in "abcde":
        client.insert_event("orders", "placed", data)
    client.tick_queue("orders")
    return client


def leases(run_json: RunJson) -> list[dict[str, Any]]:
    row = run_json("consumer", "show", "orders", "letters")
    assert row["workers"] == []
    return list(row["leases"])


def lines(run: Run) -> list[str]:
    shown = run("consumer", "show", "orders", "letters").stdout.splitlines()
    return [line for line in shown if line.startswith(("lease", "worker"))]


def test_show_tells_what_is_leased_and_what_ended(
    run: Run, run_json: RunJson, five: pgqpy.Client
) -> None:
    first, second = receive(five, 2), receive(five, 1)
    five.connection.execute(END, [second[0].token])
    found = leases(run_json)
    assert [each["messages"] for each in found] == [1, 2]
    assert [each["attempt"] for each in found] == [1, 1]
    assert [each["token"] for each in found] == [second[0].token, first[0].token]
    ended, live = lines(run)
    held = rf"lease {first[0].token} +2 message\(s\), attempt 1, ends in .* s$"
    assert re.match(held, live)
    assert re.search(r"1 message\(s\), .*, ended 1 h.* ago, goes to a later receive$", ended)
    assert [each.event.data for each in receive(five, 9)] == ["d", "e"]
    receive(five, 9)
    attempts = sorted((each["messages"], each["attempt"]) for each in leases(run_json))
    assert attempts == [(1, 2), (2, 1), (2, 1)]


def test_list_shows_the_consumer_once_and_counts_leases(run: Run, five: pgqpy.Client) -> None:
    messages = receive(five, 2)
    assert run("consumer", "list").stdout.splitlines()[1].endswith("1 lease(s)")
    five.done([*messages, *receive(five, 9)])
    (line,) = run("consumer", "list").stdout.splitlines()[1:]
    assert line.endswith("no")
    assert lines(run) == []


def test_unregister_asks_before_messages_are_lost_and_leaves_nothing(
    run: Run, five: pgqpy.Client
) -> None:
    receive(five, 2)
    refused = run("consumer", "unregister", "orders", "letters")
    assert failed_with(refused, 1, "1 lease(s) of receivers", "--force")
    assert run("consumer", "unregister", "orders", "letters", "--force").exit_code == 0
    count = "select count(*) from pgq.registration"
    assert five.connection.execute(count).fetchone() == (0,)
