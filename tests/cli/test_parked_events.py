"""``pgqpy event parked``, and where parked events are counted."""

from __future__ import annotations

from datetime import timedelta

import pytest

import pgqpy
from pgqpy import calls
from pgqpy.calls import parked
from pgqpy.records import Failure
from tests.cli.support import Connection, Examine, Run, RunJson, failed_with

WHERE = ("orders", "billing")
HOUR = timedelta(hours=1)


@pytest.fixture
def waiting(client: pgqpy.Client) -> list[int]:
    """Three events of the key a, the first of which failed, and a failed one of b."""
    client.create_queue("orders")
    client.register_consumer(*WHERE)
    client.insert_events("orders", [("placed", key) for key in "aaab"])
    client.tick_queue("orders")
    batch = client.next_batch(*WHERE)
    assert batch
    events = list(client.get_batch_events(batch))
    failed = (events[0].id, events[3].id)
    why = Failure("no such customer", "LookupError")
    client.call(
        parked.event_park(
            batch,
            [
                (event, event.data or "", HOUR, why)
                if event.id in failed
                else (event, event.data or "", None, Failure())
                for event in events
            ],
        )
    )
    client.finish_batch(batch)
    return [event.id for event in events]


def test_parked_events_that_are_due_wait_for_a_consumer_that_nobody_runs(
    examine: Examine, waiting: list[int], connection: Connection
) -> None:
    connection.execute("update pgq.position set pos_active = now() - interval '1 day'")
    assert examine()[1]["running"][0] == "ok"
    connection.execute("update pgq.parked set park_after = park_after - interval '75 minutes'")
    code, worst = examine()
    assert (code, worst["running"][0]) == (1, "fail")
    assert f"about {len(waiting)} event(s) wait, the oldest for 15 min" in worst["running"][1]


def test_keys_are_listed_with_what_failed_and_how_many_wait(
    run: Run, run_json: RunJson, waiting: list[int]
) -> None:
    told = run_json("event", "parked", *WHERE)
    assert [(row["park_key"], row["events"], row["ev_id"]) for row in told] == [
        ("a", 3, waiting[0]),
        ("b", 1, waiting[3]),
    ]
    listed = run("event", "parked", *WHERE, "a").stdout.splitlines()
    assert len(listed) == 2
    assert "LookupError  no such customer" in listed[1]
    limited = run("event", "parked", *WHERE, "--limit", "1")
    assert len(limited.stdout.splitlines()) == 2
    assert limited.stderr == "only the first 1: --limit shows more\n"


def test_failed_events_are_retried_now_or_deleted(
    run: Run, client: pgqpy.Client, waiting: list[int]
) -> None:
    assert run("event", "parked", *WHERE, "a", "--retry").stdout == "1\n"
    assert run("event", "parked", *WHERE, "--retry", "--all").stdout == "1\n"
    assert run("event", "parked", *WHERE, "a", "b", "nope", "--delete").stdout == "2\n"
    (left,) = client.call(calls.parked.get_parked(*WHERE))
    assert (left.ev_id, left.park_error, left.events) == (waiting[1], None, 2)


WRONG = [
    (("--retry",), "--all for all of them"),
    (("--delete",), "name keys"),
    (("a", "--retry", "--delete"), "exclude each other"),
    (("--all",), "--all is for --retry"),
    (("--all", "a", "--retry"), "name keys"),
]


@pytest.mark.parametrize(("options", "words"), WRONG)
def test_wrong_usage_is_told(run: Run, options: tuple[str, ...], words: str) -> None:
    result = run("event", "parked", *WHERE, *options)
    assert result.exit_code == 2
    assert words in result.stderr


def test_unknown_consumer_is_told(run: Run, waiting: list[int]) -> None:
    assert waiting
    failed_with(run("event", "parked", "orders", "nobody"), 1, "nobody")


def test_parked_events_are_counted(
    run_json: RunJson, client: pgqpy.Client, examine: Examine, waiting: list[int]
) -> None:
    assert waiting
    (counts,) = client.call(calls.admin.get_consumer_counts())
    assert counts[2:6] == (0, 0, 4, 2)
    assert counts.parked_for is not None
    assert timedelta(0) < counts.parked_for < HOUR
    assert client.call(calls.admin.get_consumer_counts(1))[0][4:6] == (1, 1)
    assert run_json("consumer", "show", *WHERE)["parked_events"] == 4
    _, findings = examine()
    assert findings["parked"][0] == "warn"
    assert "pgqpy event parked orders billing" in findings["parked"][1]
