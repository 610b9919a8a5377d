"""``event list --follow``: each event once, over compactions, rotations and lost connections."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import islice

import pytest

import pgqpy
from pgqpy import tick_ranges
from pgqpy.cli.event_list import Following
from tests.cli.support import Connection, Spawn
from tests.cli.test_event_list import compact, fill
from tests.support.waiting import eventually

END_SESSIONS = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and pid <> all (%s)
"""


def insert(client: pgqpy.Client, data: str) -> None:
    """Insert an event, and take a tick after it."""
    client.insert_event("orders", "t", data)
    client.tick_queue("orders")


def test_follow_ends_when_it_is_interrupted(spawn: Spawn, dsn: str, client: pgqpy.Client) -> None:
    fill(client, 2)
    process = spawn("-m", "pgqpy", "event", "list", "orders", "--follow", env={"PGQPY_DSN": dsn})
    eventually(lambda: len(process.output().splitlines()) == 2)
    for number in ("3", "4"):
        insert(client, number)
        eventually(lambda: process.output().splitlines()[-1].split()[-1] == number)  # noqa: B023  # it is called here
    process.signal(signal.SIGINT)
    assert process.wait() == 0
    assert "Traceback" not in process.output()


def test_follow_goes_on_after_a_compaction_and_shows_no_event_twice(client: pgqpy.Client) -> None:
    fill(client, 2)
    shown, last = tick_ranges.newest(client, "orders", 9)
    stream = Following("orders", last, tick_ranges.ALL).events(client)
    insert(client, "3")
    shown.append(next(stream))
    for number in ("4", "5"):
        insert(client, number)
    compact(client.connection)  # the tick after 3
    shown += islice(stream, 2)
    stream.close()
    assert [event.data for event in shown] == ["1", "2", "3", "4", "5"]


def test_follow_goes_on_behind_a_rotation_and_says_so(
    client: pgqpy.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(client, 1)
    client.set_queue_config("orders", "rotation_period", "0")
    last = tick_ranges.find_last(client, "orders")
    stream = Following("orders", last, tick_ranges.ALL).events(client)
    insert(client, "2")
    shown = [next(stream)]
    for number in range(3, 10):
        insert(client, str(number))
        for step in ("step1('orders')", "step2()") if number < 7 else ():
            client.connection.execute(f"select pgq.maint_rotate_tables_{step}".encode())
    left = [event.data for event in tick_ranges.oldest(client, "orders", 99)]
    assert len(left) > 1
    assert left[0] not in ("1", "2", "3")
    shown += islice(stream, len(left))
    stream.close()
    assert [event.data for event in shown] == ["2", *left]
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("queue orders: events after tick ")
    assert "were rotated away" in said


def test_follow_goes_on_after_lost_connections_and_shows_each_event_once(
    spawn: Spawn, dsn: str, client: pgqpy.Client, connection: Connection
) -> None:
    fill(client, 2)
    tail = ("event", "list", "orders", "--follow", "--json", "--type", "t")
    process = spawn("-m", "pgqpy", *tail, env={"PGQPY_DSN": dsn})
    eventually(lambda: process.output().count('"data"') == 2)
    ours = [connection.info.backend_pid, client.connection.info.backend_pid]
    for number in range(3, 6):
        eventually(lambda: connection.execute(END_SESSIONS, [ours]).fetchall() != [(0,)])
        client.insert_event("orders", "other", "x")
        insert(client, str(number))
        compact(connection)
        eventually(lambda: f'"data": "{number}"' in process.output())  # noqa: B023  # it is called here
    process.signal(signal.SIGINT)
    assert process.wait() == 0
    output = process.output()
    assert output.count('"data"') == 5
    assert "the connection is lost (" in output
    assert "Traceback" not in output


def test_event_is_shown_once_though_the_connection_is_lost_in_the_middle_of_a_range(
    client: pgqpy.Client, dsn: str, connection: Connection
) -> None:
    fill(client, 1)
    following = Following("orders", tick_ranges.find_last(client, "orders"), tick_ranges.ALL)
    with pgqpy.connect(dsn) as first, pgqpy.connect(dsn) as slow, slow.transaction():
        slow.insert_event("orders", "t", "late")
        client.insert_events("orders", [("t", str(number)) for number in range(1500)])
        client.tick_queue("orders")
        shown = [event.data for event in islice(following.events(first), 1100)]
    insert(client, "last")
    compact(connection)
    shown += [event.data for event in islice(following.events(client), 402)]
    assert sorted(map(str, shown)) == sorted([*map(str, range(1500)), "late", "last"])


def test_follow_says_nothing_when_its_reader_has_gone(dsn: str, client: pgqpy.Client) -> None:
    fill(client, 2)
    command = [sys.executable, "-m", "pgqpy", "event", "list", "orders", "--follow"]
    with subprocess.Popen(
        command,
        env={**os.environ, "PGQPY_DSN": dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        fill(client, 1)
        assert process.wait(timeout=30) == 1
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("ahead", "snapshot", "said"),
    [
        (100, "900000000:900000000:", "does not exist any more"),
        (0, "9000:9000:", "tick 2 is another one"),
    ],
    ids=["none", "others with the same numbers"],
)
def test_follow_goes_on_where_a_server_without_the_last_ticks_is(
    client: pgqpy.Client, capsys: pytest.CaptureFixture[str], ahead: int, snapshot: str, said: str
) -> None:
    fill(client, 1)
    last = tick_ranges.find_last(client, "orders")
    lost = last._replace(tick_id=last.tick_id + ahead, snapshot=snapshot)
    following = Following("orders", lost, tick_ranges.ALL)
    client.tick_queue("orders")
    assert list(following._new(client)) == []
    insert(client, "new")
    assert [event.data for event in following._new(client)] == ["new"]
    assert said in capsys.readouterr().err
