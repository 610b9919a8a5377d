"""The commands for dead events: dead, show, revive, delete."""

from __future__ import annotations

import json
import signal
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy.cli import dead_events
from tests.cli.support import Connect, Connection, Run, RunJson, Spawn, failed_with
from tests.support.waiting import eventually

WHERE = ("orders", "billing")
GUEST = "test_dead_events_guest"


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.fixture
def dead(client: pgqpy.Client, connection: Connection) -> list[int]:
    """Six dead events: three types, three errors; the first died three hours before the others."""
    client.create_queue("orders")
    client.register_consumer(*WHERE)
    types = ["placed", "placed", "paid", "paid", "sent", "sent"]
    client.insert_events("orders", [(type_, f'{{"id": {n}}}') for n, type_ in enumerate(types)])
    client.insert_event("orders", None, "untyped")
    client.tick_queue("orders")
    batch = client.next_batch(*WHERE)
    assert batch
    errors: list[str | Exception | None]
    errors = [
        ValueError("a\nb"),
        LookupError(),
        ValueError("c"),
        "by hand",
        KeyError(1),
        "why",
        None,
    ]
    events = list(client.get_batch_events(batch))
    client.event_dead(
        batch,
        [
            (event, raised(error) if isinstance(error, Exception) else error)
            for event, error in zip(events, errors, strict=True)
        ],
    )
    client.finish_batch(batch)
    connection.execute(
        "update pgq.dead_event set dead_time = dead_time - interval '3 h' where ev_id = %s",
        [events[0].id],
    )
    return [event.id for event in events]


def shown(run_json: RunJson, *options: str) -> list[int]:
    return [row["ev_id"] for row in run_json("event", "dead", *WHERE, *options)]


CHOICES: list[tuple[tuple[str, ...], list[int]]] = [
    (("--type", "paid"), [2, 3]),
    (("--type", ""), [6]),
    (("--error", "ValueError"), [0, 2]),
    (("--error", ""), [3, 5, 6]),
    (("--error", "Value%"), []),
    (("--error", "' or true --"), []),
    (("--since", "2h"), [1, 2, 3, 4, 5, 6]),
    (("--until", "2h"), [0]),
    (("--since", "4 h", "--until", "120min"), [0]),
    (("--since", "2000-01-01"), [0, 1, 2, 3, 4, 5, 6]),
    (("--until", "2000-01-01T12:00:00Z"), []),
    (("--type", "placed", "--error", "ValueError"), [0]),
]


@pytest.mark.parametrize(("options", "chosen"), CHOICES)
def test_filters_choose_the_same_events_for_every_command(
    run: Run, run_json: RunJson, dead: list[int], options: tuple[str, ...], chosen: list[int]
) -> None:
    wanted = [dead[index] for index in chosen]
    assert shown(run_json, *options) == wanted[::-1]
    groups = run_json("event", "dead", *WHERE, "--group", *options)
    assert sum(group["dead_events"] for group in groups) == len(wanted)
    assert (
        run("event", "delete", *WHERE, *options, "--limit", "1").stdout
        == f"{min(1, len(wanted))}\n"
    )
    assert run("event", "revive", *WHERE, *options).stdout == f"{len(wanted[1:])}\n"
    assert shown(run_json) == [each for each in reversed(dead) if each not in wanted]


def test_list_is_bounded_newest_first_and_says_so(
    run: Run, run_json: RunJson, dead: list[int]
) -> None:
    assert shown(run_json) == dead[::-1]
    listed = run("event", "dead", *WHERE, "--limit", "2")
    heading, first, second = listed.stdout.splitlines()
    assert heading.split() == ["event", "died", "tries", "error", "reason", "type", "data"]
    assert [first.split()[0], second.split()[0]] == [str(dead[6]), str(dead[5])]
    assert listed.stderr == "only the newest 2: --limit shows more, --group counts all\n"
    assert run("event", "dead", *WHERE, "--limit", "7").stderr == ""


def test_group_counts_by_type_and_error_the_most_frequent_first(
    run: Run, run_json: RunJson, dead: list[int], client: pgqpy.Client
) -> None:
    client.delete_dead_events(*WHERE, [dead[1]])
    client.connection.execute("update pgq.dead_event set ev_type = 'placed' where ev_type = 'paid'")
    groups = run_json("event", "dead", *WHERE, "--group")
    assert [(group["ev_type"], group["dead_error"], group["dead_events"]) for group in groups] == [
        ("placed", "ValueError", 2),
        ("placed", None, 1),
        ("sent", "KeyError", 1),
        ("sent", None, 1),
        (None, None, 1),
    ]
    last = datetime.fromisoformat(groups[0]["last_dead_time"])
    assert datetime.now(timezone.utc) - last < timedelta(hours=1)
    heading, first, *_ = run("event", "dead", *WHERE, "--group", "--limit", "1").stdout.splitlines()
    assert heading.split() == ["type", "error", "events", "last", "died"]
    assert first.split()[:3] == ["placed", "ValueError", "2"]


def test_show_has_the_data_and_the_lines_of_the_traceback(
    run: Run, run_json: RunJson, dead: list[int]
) -> None:
    text = run("event", "show", *WHERE, str(dead[0])).stdout
    assert '{"id": 0}' in text
    assert "\nTraceback (most recent call last):\n  File " in text
    assert text.endswith("ValueError: a\n    b\n")
    row = run_json("event", "show", *WHERE, str(dead[0]))
    assert (row["dead_error"], row["dead_reason"], row["dead_tries"]) == ("ValueError", r"a\nb", 1)
    assert row["dead_traceback"].startswith("Traceback ")
    assert "Traceback" not in run("event", "show", *WHERE, str(dead[3])).stdout


def test_show_escapes_what_a_terminal_would_obey(
    run: Run, dead: list[int], connection: Connection
) -> None:
    connection.execute("update pgq.dead_event set dead_traceback = E'a\\n\\x1b[2J'")
    assert run("event", "show", *WHERE, str(dead[3])).stdout.endswith("\na\n\\x1b[2J\n")


def test_show_of_an_event_that_is_not_dead(run: Run, dead: list[int]) -> None:
    assert failed_with(run("event", "show", *WHERE, "4711"), 1, "event 4711", "event dead lists")


@pytest.mark.parametrize("verb", ["revive", "delete"])
@pytest.mark.parametrize(
    "options",
    [(), ("1", "--all"), ("1", "--type", "a"), ("--all", "--type", "a"), ("--limit", "1")],
)
def test_change_needs_ids_or_filters_or_all(run: Run, verb: str, options: tuple[str, ...]) -> None:
    assert failed_with(run("event", verb, *WHERE, *options), 2, "event ids", "--type", "--all")


@pytest.mark.parametrize(
    "word",
    ["yesterday", "2h30", "-2h", "2026-13-01", "1e9d", "nan", "9999999999d", "1000000d", "٣h"],
)
def test_what_is_no_time_is_refused(run: Run, dead: list[int], word: str) -> None:
    assert failed_with(run("event", "delete", *WHERE, "--until", word), 2)


@pytest.mark.parametrize(("verb", "left"), [("revive", 6), ("delete", 0)])
def test_many_are_changed_in_short_transactions(
    run: Run,
    dead: list[int],
    client: pgqpy.Client,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    left: int,
) -> None:
    monkeypatch.setattr(dead_events, "CHUNK", 2)
    monkeypatch.setattr(dead_events, "PROGRESS_INTERVAL", 0)
    result = run("event", verb, *WHERE, "--all", "--limit", "6")
    said = "revived" if verb == "revive" else "deleted"
    assert result.stdout == "6\n"
    assert result.stderr.splitlines() == [f"{said} {n} dead event(s) so far" for n in (2, 4, 6)]
    sizes = client.connection.execute(
        "select count(*) from pgq.retry_queue group by ev_txid order by min(ev_id)"
    ).fetchall()
    assert sizes == [(2,)] * (left // 2)
    assert [event.ev_id for event in client.get_dead_events(*WHERE)] == [dead[6]]


def test_event_that_died_after_the_command_began_is_left_alone(
    run: Run, run_json: RunJson, dead: list[int], connection: Connection
) -> None:
    connection.execute(
        "update pgq.dead_event set dead_time = now() + interval '1 h' where ev_id = %s", [dead[6]]
    )
    for option in (["--all"], ["--since", "2000-01-01"], ["--until", "2999-01-01"]):
        run("event", "revive", *WHERE, *option)
    assert shown(run_json) == [dead[6]]


def test_ctrl_c_keeps_what_is_done_and_says_it(
    spawn: Spawn, dsn: str, dead: list[int], client: pgqpy.Client, connect: Connect
) -> None:
    copy = """
        insert into pgq.dead_event (dead_reason, dead_tries, ev_queue, ev_owner, ev_id, ev_time,
            ev_txid)
        select '', 1, ev_queue, ev_owner, 1000 + n, ev_time, ev_txid
          from pgq.dead_event, generate_series(1, %s) n where ev_id = %s"""
    client.connection.execute(copy, [dead_events.CHUNK, dead[0]])
    holder = connect(autocommit=False)  # the last event is in the retry queue, perhaps
    holder.execute(
        "insert into pgq.retry_queue (ev_retry_after, ev_queue, ev_owner, ev_id, ev_time)"
        " select now(), ev_queue, ev_owner, ev_id, ev_time"
        "   from pgq.dead_event order by ev_id desc limit 1"
    )
    process = spawn("-m", "pgqpy", "event", "revive", *WHERE, "--all", env={"PGQPY_DSN": dsn})
    wait_until_blocked_by(client, holder)
    process.signal(signal.SIGINT)
    assert process.wait() == 130
    said = [f"revived {dead_events.CHUNK} dead event(s) before it ended", "interrupted"]
    assert process.output().split("\n") == [said[0], "", said[1], ""]
    holder.rollback()
    assert len(client.get_dead_events(*WHERE)) == len(dead)
    queued = client.connection.execute("select count(*) from pgq.retry_queue").fetchone()
    assert queued == (dead_events.CHUNK,)


def wait_until_blocked_by(client: pgqpy.Client, holder: Connection) -> None:
    blocked = "select count(*) from pg_stat_activity where %s = any (pg_blocking_pids(pid))"
    pid = holder.info.backend_pid
    eventually(lambda: client.connection.execute(blocked, [pid]).fetchone() == (1,))


@pytest.mark.parametrize(
    ("role", "may"),
    [("pgq_reader", True), ("pgq_admin", True), ("pgq_writer", False), ("pgq_ticker", False)],
)
def test_readers_see_and_change_dead_events_and_nobody_else(
    bare_run: Run, dead: list[int], connection: Connection, dsn: str, role: str, may: bool
) -> None:
    connection.execute(f"create role {GUEST} login in role {role}".encode())
    guest = ("--dsn", make_conninfo(dsn, user=GUEST), "event")
    try:
        results = [
            bare_run(*guest, "dead", *WHERE, "--json"),
            bare_run(*guest, "dead", *WHERE, "--group"),
            bare_run(*guest, "show", *WHERE, str(dead[0])),
            bare_run(*guest, "revive", *WHERE, "--type", "placed"),
            bare_run(*guest, "delete", *WHERE, "--all"),
        ]
    finally:
        connection.execute(f"drop role {GUEST}".encode())
    if may:
        assert [result.exit_code for result in results] == [0] * 5
        assert (results[3].stdout, results[4].stdout) == ("2\n", "5\n")
        listed: list[dict[str, Any]] = json.loads(results[0].stdout)
        assert listed[-1]["dead_traceback"].startswith("Traceback ")
    else:
        assert all(failed_with(result, 1, "pgq_reader") for result in results)
