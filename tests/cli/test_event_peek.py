"""``event peek`` and ``event tail``: look at events without a subscription."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from itertools import islice
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy.cli import event_peek
from tests.cli.support import Connect, Connection, Run, RunJson, Spawn, failed_with
from tests.support.waiting import eventually

WRITER = f"pgqpy_test_peeker_{os.getpid()}"  # roles belong to the whole cluster


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
        (1, [1], [7]),
        (3, [1, 2, 3], [5, 6, 7]),
        (4, [1, 2, 3, 4], [4, 5, 6, 7]),
        (99, [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_peek_shows_the_oldest_events_and_tail_the_newest(
    run: Run,
    run_json: RunJson,
    client: pgqpy.Client,
    limit: int,
    oldest: list[int],
    newest: list[int],
) -> None:
    fill(client, 2, 0, 3, 2)
    client.insert_event("orders", "t", "not ticked yet")
    peeked = run_json("event", "peek", "orders", "--limit", str(limit))
    assert [int(row["data"]) for row in peeked] == oldest
    lines = run("event", "tail", "orders", "--limit", str(limit), "--json").stdout.splitlines()
    assert [int(json.loads(line)["data"]) for line in lines] == newest


def test_gaps_in_the_ids_do_not_make_fewer_events(
    run: Run, run_json: RunJson, client: pgqpy.Client, connection: Connection
) -> None:
    fill(client, 3)
    connection.execute(
        "select nextval('pgq.event_1_id_seq') from generate_series(1, 50)".replace(
            "event_1", f"event_{queue_id(connection)}"
        ).encode()
    )
    client.tick_queue("orders")
    client.insert_event("orders", "t", "4")
    client.tick_queue("orders")
    assert [row["data"] for row in run_json("event", "peek", "orders")] == ["1", "2", "3", "4"]
    shown = run("event", "tail", "orders", "--limit", "2").stdout.splitlines()
    assert [line.split()[-1] for line in shown] == ["3", "4"]


def queue_id(connection: Connection) -> int:
    (number,) = connection.execute("select queue_id from pgq.queue").fetchone() or (0,)
    return int(number)


def test_peek_and_tail_take_no_event_from_consumers(run: Run, client: pgqpy.Client) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    client.insert_event("orders", "t", "1")
    client.tick_queue("orders")
    for verb in ("peek", "tail"):
        assert run("event", verb, "orders").exit_code == 0
    batch = client.next_batch("orders", "billing")
    assert batch
    assert [event.data for event in client.get_batch_events(batch)] == ["1"]


def test_tail_follows_until_it_is_interrupted(spawn: Spawn, dsn: str, client: pgqpy.Client) -> None:
    fill(client, 2)
    process = spawn("-m", "pgqpy", "event", "tail", "orders", "-f", env={"PGQPY_DSN": dsn})
    eventually(lambda: len(process.output().splitlines()) == 2)
    for number in ("3", "4"):
        client.insert_event("orders", "t", number)
        client.tick_queue("orders")
        eventually(lambda: process.output().splitlines()[-1].split()[-1] == number)  # noqa: B023  # it is called here
    process.signal(signal.SIGINT)
    assert process.wait() == 0
    assert "Traceback" not in process.output()


def test_tail_goes_on_after_a_compaction_and_shows_no_event_twice(client: pgqpy.Client) -> None:
    fill(client, 2)
    shown, last = event_peek.newest(client, "orders", 9)
    stream = event_peek.following(client, "orders", last, shown)
    client.insert_event("orders", "t", "3")
    client.tick_queue("orders")
    shown.append(next(stream))
    for number in ("4", "5"):
        client.insert_event("orders", "t", number)
        client.tick_queue("orders")
    compact(client.connection)  # the tick after 3
    shown += islice(stream, 2)
    stream.close()
    assert [event.data for event in shown] == ["1", "2", "3", "4", "5"]


def test_tail_goes_on_behind_a_rotation_and_says_so(
    client: pgqpy.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(client, 1)
    client.set_queue_config("orders", "rotation_period", "0")
    stream = event_peek.following(client, "orders", client.get_tick_info("orders")[-1].tick_id, [])
    client.insert_event("orders", "t", "2")
    client.tick_queue("orders")
    shown = [next(stream)]
    for number in range(3, 10):
        client.insert_event("orders", "t", str(number))
        client.tick_queue("orders")
        for step in ("step1('orders')", "step2()") if number < 7 else ():
            client.connection.execute(f"select pgq.maint_rotate_tables_{step}".encode())
    left = [event.data for event in event_peek.oldest(client, "orders", 99)]
    assert len(left) > 1
    assert left[0] not in ("1", "2", "3")
    shown += islice(stream, len(left))
    stream.close()
    assert [event.data for event in shown] == ["2", *left]
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("events of queue orders after tick ")
    assert "were rotated away" in said


def test_a_compaction_waits_while_peek_and_tail_read(
    client: pgqpy.Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, 1, 1, 1)
    other, list_ticks = connect(), event_peek._ticks

    def listed_before_a_compaction(*args: Any) -> Any:
        ticks = list_ticks(*args)
        compact(other)
        return ticks

    monkeypatch.setattr(event_peek, "_ticks", listed_before_a_compaction)
    assert [event.data for event in event_peek.oldest(client, "orders", 1)] == ["1"]
    assert [event.data for event in event_peek.newest(client, "orders", 1)[0]] == ["3"]


def compact(connection: Connection) -> None:
    """Compact ticks, all of which were taken within a second."""
    connection.execute("set lock_timeout = '50ms'")
    with suppress(psycopg.errors.LockNotAvailable):
        connection.execute("update pgq.tick set tick_time = date_trunc('hour', now())")
        connection.execute("select pgq.compact_ticks()")


def test_an_event_is_one_line_and_cannot_command_the_terminal(
    run: Run, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.insert_event("orders", "t", "one\ntwo\x1b[31mé\r")
    client.tick_queue("orders")
    for verb in ("peek", "tail"):
        shown = run("event", verb, "orders").stdout
        assert shown.splitlines()[-1].endswith("one\\ntwo\\x1b[31mé\\r")


def test_a_role_that_may_not_read_is_told_which_role_may(
    bare_run: Run, client: pgqpy.Client, connection: Connection, dsn: str
) -> None:
    client.create_queue("orders")
    connection.execute(f"create role {WRITER} login in role pgq_writer".encode())
    try:
        for verb in ("peek", "tail"):
            result = bare_run("--dsn", make_conninfo(dsn, user=WRITER), "event", verb, "orders")
            assert failed_with(result, 1, "permission denied", "grant pgq_reader")
    finally:
        connection.execute(f"drop role {WRITER}".encode())


def test_the_extension_has_no_ranges(bare_run: Run, extension_dsn: str) -> None:
    with pgqpy.connect(extension_dsn) as client:
        client.create_queue("orders")
    for verb in ("peek", "tail"):
        result = bare_run("--dsn", extension_dsn, "event", verb, "orders")
        assert failed_with(result, 1, "the extension pgq in this database lacks")
