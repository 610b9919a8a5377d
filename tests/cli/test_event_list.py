"""``event list``: events of a queue, without a subscription."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import tick_ranges
from tests.cli.support import Connect, Connection, Login, Run, RunJson, failed_with
from tests.client.conftest import open_batch


def fill(client: pgqpy.Client, *batches: int) -> None:
    """Insert events 1, 2, 3 … and take a tick after each of these numbers of them."""
    client.create_queue("orders")
    number = 0
    for size in batches:
        client.insert_events("orders", [("t", str(number + n)) for n in range(1, size + 1)])
        client.tick_queue("orders")
        number += size


@pytest.mark.parametrize(
    ("limit", "oldest", "newest"),
    [
        (0, [], []),
        (3, [1, 2, 3], [5, 6, 7]),
        (4, [1, 2, 3, 4], [4, 5, 6, 7]),
        (99, [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_the_oldest_events_are_listed_or_the_newest(
    run_json: RunJson,
    client: pgqpy.Client,
    limit: int,
    oldest: list[int],
    newest: list[int],
) -> None:
    fill(client, 2, 0, 3, 2)
    client.insert_event("orders", "t", "not ticked yet")
    for options, expected in (((), oldest), (("--newest",), newest)):
        rows = run_json("event", "list", "orders", *options, "--limit", str(limit))
        assert [int(row["data"]) for row in rows] == expected


def test_gaps_in_the_ids_do_not_make_fewer_events(
    run: Run, run_json: RunJson, client: pgqpy.Client, connection: Connection
) -> None:
    fill(client, 3)
    connection.execute("select nextval(queue_event_seq) from pgq.queue, generate_series(1, 50)")
    client.tick_queue("orders")
    client.insert_event("orders", "t", "4")
    client.tick_queue("orders")
    assert [row["data"] for row in run_json("event", "list", "orders")] == ["1", "2", "3", "4"]
    shown = run("event", "list", "orders", "--newest", "--limit", "2").stdout.splitlines()
    assert [line.split()[-1] for line in shown] == ["data", "3", "4"]


TIMES = ("2026-01-01 12:00", "2026-01-01 12:10", "2026-01-01 12:20", "2026-01-01 12:30")


CASES: list[tuple[list[str], list[str]]] = [
    (["--type", "paid"], ["2", "4"]),
    (["--type", "p*", "--extra1", "eu"], ["4"]),
    (["--extra1", "eu", "--extra2", "x%"], ["1"]),
    (["--since", "2026-01-01T12:10+00"], ["2", "3", "4"]),
    (["--since", "2026-01-01T12:10+00", "--until", "2026-01-01T12:30+00"], ["2", "3"]),
    (["--until", "2026-01-01T12:20+00", "--limit", "1"], ["1"]),
    (["--tick", "3"], ["3", "4"]),
    (["--tick", "3", "--type", "new"], ["3"]),
    (["--since", "1 d"], []),
]


def test_the_events_are_listed_that_are_asked_for(
    run: Run, connection: Connection, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    chosen = (("new", "eu", "x%"), ("paid", "us", None), ("new", "eu", None), ("paid", "eu", None))
    for number, (kind, extra1, extra2) in enumerate(chosen, 1):
        client.insert_event("orders", kind, str(number), extra1=extra1, extra2=extra2)
        client.tick_queue("orders")
        moved = "update pgq.event_template set ev_time = %s where ev_data = %s"
        connection.execute(moved.encode(), [TIMES[number - 1] + "+00", str(number)])
        moved = "update pgq.tick set tick_time = %s where tick_id = %s"
        connection.execute(moved.encode(), [TIMES[number - 1] + ":30+00", number + 1])
    connection.execute("update pgq.tick set tick_time = '2026-01-01 11:00+00' where tick_id = 1")
    for options, expected in CASES:
        result = run("event", "list", "orders", "--json", *options)
        assert [row["data"] for row in json.loads(result.stdout)] == expected, options
        assert result.stderr == ""


def test_the_list_says_from_where_on_events_are_kept(run: Run, client: pgqpy.Client) -> None:
    fill(client, 1)
    result = run("event", "list", "orders", "--since", "1 d")
    assert "queue orders keeps events from " in result.stderr
    assert len(result.stdout.splitlines()) == 2
    assert failed_with(
        run("event", "list", "orders", "--tick", "99"), 1, "tick 99 is in the future"
    )


def test_a_list_takes_no_event_from_consumers(run: Run, orders: pgqpy.Client) -> None:
    orders.insert_event("orders", "t", "1")
    orders.tick_queue("orders")
    for options in ((), ("--newest",)):
        assert run("event", "list", "orders", *options).exit_code == 0
    assert [event.data for event in orders.get_batch_events(open_batch(orders))] == ["1"]


def test_a_compaction_waits_while_a_list_is_read(
    client: pgqpy.Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, 1, 1, 1)
    other, find_last = connect(), tick_ranges.find_last

    def found_before_a_compaction(*args: Any) -> Any:
        tick = find_last(*args)
        compact(other)
        return tick

    monkeypatch.setattr(tick_ranges, "find_last", found_before_a_compaction)
    assert [event.data for event in tick_ranges.oldest(client, "orders", 1)] == ["1"]
    assert [event.data for event in tick_ranges.newest(client, "orders", 1)[0]] == ["3"]


def test_an_event_is_one_line_and_cannot_command_the_terminal(
    run: Run, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.insert_event("orders", "t", "one\ntwo\x1b[31mé\r")
    client.tick_queue("orders")
    for options in ((), ("--newest",)):
        shown = run("event", "list", "orders", *options).stdout
        assert shown.splitlines()[-1].endswith("one\\ntwo\\x1b[31mé\\r")


def test_a_role_that_may_not_read_is_told_which_role_may(
    bare_run: Run, client: pgqpy.Client, login: Login, dsn: str
) -> None:
    client.create_queue("orders")
    guest = make_conninfo(dsn, user=login("pgq_writer"))
    for options in ((), ("--newest",)):
        result = bare_run("--dsn", guest, "event", "list", "orders", *options)
        assert failed_with(result, 1, "permission denied", "grant pgq_reader")


def compact(connection: Connection) -> None:
    """Compact ticks, all of which were taken within a second."""
    connection.execute("set lock_timeout = '50ms'")
    with suppress(psycopg.errors.LockNotAvailable):
        connection.execute("update pgq.tick set tick_time = date_trunc('hour', now())")
        connection.execute("select pgq.compact_ticks()")


def test_a_tick_is_found_without_reading_all(client: pgqpy.Client, connection: Connection) -> None:
    fill(client, 1)
    connection.execute(
        "insert into pgq.tick select queue_id, tick_id, now(), '1:1:', 0 from pgq.queue,"
        " generate_series(10, 5000) tick_id"
    )
    connection.execute("analyze pgq.tick")
    for query, params in (
        (tick_ranges.TICK, [4000, "orders"]),
        (tick_ranges.FIRST_TICK, ["orders"]),
    ):
        with tick_ranges.reading(client):
            rows = client.connection.execute("explain " + query, params).fetchall()
        assert "Merge Append" in str(rows), rows
        assert "Sort  (" not in str(rows), rows


def test_a_list_that_finds_nothing_says_when_an_event_is_shown(
    run: Run, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.insert_event("orders", "placed", "17")
    result = run("event", "list", "orders")
    assert result.stdout.split() == ["id", "time", "type", "data"]
    assert result.stderr == "no event found: one is shown once a later tick exists\n"
