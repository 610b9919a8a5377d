"""Dead, retrying, parked and delayed events: list, show, retry, delete, cancel."""

from __future__ import annotations

import signal
from datetime import datetime, timedelta, timezone

import pytest
from psycopg.conninfo import make_conninfo

import pgqpy
from pgqpy import calls
from pgqpy.cli import event_waiting
from tests.cli.support import Connect, Connection, Login, Run, RunJson, Spawn, failed_with
from tests.client.conftest import open_batch
from tests.support.errors import raised
from tests.support.waiting import eventually

WHERE = ("orders", "billing")
DEAD = ("event", "list", "orders", "dead", "billing")
PARKED = ("event", "list", "orders", "parked", "billing")
HOUR = timedelta(hours=1)


@pytest.fixture
def dead(orders: pgqpy.Client, connection: Connection) -> list[int]:
    """Six dead events: three types, three errors; the first died three hours before the others."""
    types = ["placed", "placed", "paid", "paid", "sent", "sent"]
    orders.insert_events("orders", [(type_, f'{{"id": {n}}}') for n, type_ in enumerate(types)])
    batch = open_batch(orders, (None, "untyped"))
    errors: list[str | Exception | None] = [
        ValueError("a\nb"),
        LookupError(),
        ValueError("c"),
        "by hand",
        KeyError(1),
        "why",
        None,
    ]
    events = list(orders.get_batch_events(batch))
    orders.event_dead(
        batch,
        [
            (event, raised(error) if isinstance(error, Exception) else error)
            for event, error in zip(events, errors, strict=True)
        ],
    )
    orders.finish_batch(batch)
    connection.execute(
        "update pgq.dead_event set dead_time = dead_time - interval '3 h' where ev_id = %s",
        [events[0].id],
    )
    return [event.id for event in events]


def shown(run_json: RunJson, *options: str) -> list[int]:
    return [row["ev_id"] for row in run_json(*DEAD, *options)]


CHOICES: list[tuple[tuple[str, ...], list[int]]] = [
    (("--type", "paid"), [2, 3]),
    (("--type", ""), [6]),
    (("--error", "ValueError"), [0, 2]),
    (("--error", ""), [3, 5, 6]),
    (("--error", "' or true --"), []),
    (("--since", "2h"), [1, 2, 3, 4, 5, 6]),
    (("--until", "2h"), [0]),
    (("--since", "4 h", "--until", "120min"), [0]),
    (("--type", "placed", "--error", "ValueError"), [0]),
]


@pytest.mark.parametrize(("options", "chosen"), CHOICES)
def test_filters_choose_the_same_events_for_every_command(
    run: Run, run_json: RunJson, dead: list[int], options: tuple[str, ...], chosen: list[int]
) -> None:
    wanted = [dead[index] for index in chosen]
    assert shown(run_json, *options) == wanted[::-1]
    groups = run_json(*DEAD, "--group", *options)
    assert sum(group["dead_events"] for group in groups) == len(wanted)
    assert (
        run("event", "delete", *WHERE, *options, "--limit", "1").stdout
        == f"{min(1, len(wanted))}\n"
    )
    assert run("event", "retry", *WHERE, *options).stdout == f"{len(wanted[1:])}\n"
    assert shown(run_json) == [each for each in reversed(dead) if each not in wanted]


def test_list_is_bounded_newest_first_and_says_so(
    run: Run, run_json: RunJson, dead: list[int]
) -> None:
    assert shown(run_json) == dead[::-1]
    listed = run(*DEAD, "--limit", "2")
    heading, first, second = listed.stdout.splitlines()
    assert heading.split() == ["event", "died", "tries", "error", "reason", "type", "data"]
    assert [first.split()[0], second.split()[0]] == [str(dead[6]), str(dead[5])]
    assert listed.stderr == "only the newest 2: --limit shows more, --group counts all\n"
    assert run(*DEAD, "--limit", "7").stderr == ""


def test_group_counts_by_type_and_error_the_most_frequent_first(
    run: Run, run_json: RunJson, dead: list[int], client: pgqpy.Client
) -> None:
    client.delete_dead_events(*WHERE, [dead[1]])
    client.connection.execute("update pgq.dead_event set ev_type = 'placed' where ev_type = 'paid'")
    groups = run_json(*DEAD, "--group")
    assert [(group["ev_type"], group["dead_error"], group["dead_events"]) for group in groups] == [
        ("placed", "ValueError", 2),
        ("placed", None, 1),
        ("sent", "KeyError", 1),
        ("sent", None, 1),
        (None, None, 1),
    ]
    last = datetime.fromisoformat(groups[0]["last_dead_time"])
    assert datetime.now(timezone.utc) - last < timedelta(hours=1)
    heading, first, *_ = run(*DEAD, "--group", "--limit", "1").stdout.splitlines()
    assert heading.split() == ["type", "error", "events", "last", "died"]
    assert first.split()[:3] == ["placed", "ValueError", "2"]


def test_show_has_the_data_and_the_lines_of_the_traceback(
    run: Run, run_json: RunJson, dead: list[int], connection: Connection
) -> None:
    text = run("event", "show", *WHERE, str(dead[0])).stdout
    assert '{"id": 0}' in text
    assert "\nTraceback (most recent call last):\n  File " in text
    assert text.endswith("ValueError: a\n    b\n")
    row = run_json("event", "show", *WHERE, str(dead[0]))
    assert (row["dead_error"], row["dead_reason"], row["dead_tries"]) == ("ValueError", r"a\nb", 1)
    assert row["dead_traceback"].startswith("Traceback ")
    assert "Traceback" not in run("event", "show", *WHERE, str(dead[3])).stdout
    # What a terminal would obey is escaped.
    connection.execute("update pgq.dead_event set dead_traceback = E'a\\n\\x1b[2J'")
    assert run("event", "show", *WHERE, str(dead[3])).stdout.endswith("\na\n\\x1b[2J\n")


def test_show_of_an_event_that_neither_waits_nor_is_dead(run: Run, dead: list[int]) -> None:
    shown = run("event", "show", *WHERE, "4711")
    assert failed_with(shown, 1, "event 4711 is neither dead nor waits", "event list")


@pytest.mark.parametrize("verb", ["retry", "delete"])
@pytest.mark.parametrize("options", [(), ("1", "--all"), ("1", "--type", "a"), ("--limit", "1")])
def test_change_needs_ids_or_filters_or_all(run: Run, verb: str, options: tuple[str, ...]) -> None:
    assert failed_with(run("event", verb, *WHERE, *options), 2, "event ids", "--type", "--all")


@pytest.mark.parametrize(("verb", "left"), [("retry", 6), ("delete", 0)])
def test_many_are_changed_in_short_transactions(
    run: Run,
    dead: list[int],
    client: pgqpy.Client,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    left: int,
) -> None:
    monkeypatch.setattr(event_waiting, "CHUNK", 2)
    monkeypatch.setattr(event_waiting, "PROGRESS_INTERVAL", 0)
    result = run("event", verb, *WHERE, "--all", "--limit", "6")
    said = "retried" if verb == "retry" else "deleted"
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
        run("event", "retry", *WHERE, *option)
    assert shown(run_json) == [dead[6]]


def test_ctrl_c_keeps_what_is_done_and_says_it(
    spawn: Spawn, dsn: str, dead: list[int], client: pgqpy.Client, connect: Connect
) -> None:
    copy = """
        insert into pgq.dead_event (dead_reason, dead_tries, ev_queue, ev_owner, ev_id, ev_time,
            ev_txid)
        select '', 1, ev_queue, ev_owner, 1000 + n, ev_time, ev_txid
          from pgq.dead_event, generate_series(1, %s) n where ev_id = %s"""
    client.connection.execute(copy, [event_waiting.CHUNK, dead[0]])
    holder = connect(autocommit=False)  # the last event is in the retry queue, perhaps
    holder.execute(
        "insert into pgq.retry_queue (ev_retry_after, ev_queue, ev_owner, ev_id, ev_time)"
        " select now(), ev_queue, ev_owner, ev_id, ev_time"
        "   from pgq.dead_event order by ev_id desc limit 1"
    )
    process = spawn("-m", "pgqpy", "event", "retry", *WHERE, "--all", env={"PGQPY_DSN": dsn})
    wait_until_blocked_by(client, holder)
    process.signal(signal.SIGINT)
    assert process.wait() == 130
    said = [f"retried {event_waiting.CHUNK} dead event(s) before it ended", "interrupted"]
    assert process.output().split("\n") == [said[0], "", said[1], ""]
    holder.rollback()
    assert len(client.get_dead_events(*WHERE)) == len(dead)
    queued = client.connection.execute("select count(*) from pgq.retry_queue").fetchone()
    assert queued == (event_waiting.CHUNK,)


def wait_until_blocked_by(client: pgqpy.Client, holder: Connection) -> None:
    blocked = "select count(*) from pg_stat_activity where %s = any (pg_blocking_pids(pid))"
    pid = holder.info.backend_pid
    eventually(lambda: client.connection.execute(blocked, [pid]).fetchone() == (1,))


@pytest.mark.parametrize(("role", "may"), [("pgq_reader", True), ("pgq_writer", False)])
def test_readers_see_and_change_dead_events_and_nobody_else(
    bare_run: Run, dead: list[int], login: Login, dsn: str, role: str, may: bool
) -> None:
    guest = ("--dsn", make_conninfo(dsn, user=login(role)))
    results = [
        bare_run(*guest, *DEAD, "--json"),
        bare_run(*guest, *DEAD, "--group"),
        bare_run(*guest, "event", "list", "orders", "retrying", "billing"),
        bare_run(*guest, "event", "show", *WHERE, str(dead[0])),
        bare_run(*guest, "event", "retry", *WHERE, "--type", "placed"),
        bare_run(*guest, "event", "delete", *WHERE, "--all"),
    ]
    if may:
        assert [result.exit_code for result in results] == [0] * 6
        assert (results[4].stdout, results[5].stdout) == ("2\n", "5\n")
    else:
        assert all(failed_with(result, 1, "pgq_reader") for result in results)


@pytest.fixture
def waiting(client: pgqpy.Client) -> list[int]:
    """Two events of the key a, the first of which failed; a retrying event; a delayed one."""
    client.create_queue("orders")
    client.register_consumer(*WHERE, shared=True, key="extra1")
    for data, key in (("first", "a"), ("again", None)):
        client.insert_event("orders", "placed", data, extra1=key)
    first, again = client.receive(*WHERE, limit=10, wait=0, key="extra1")
    first.retry(HOUR)
    again.retry(2 * HOUR)
    behind = client.insert_event("orders", "placed", "behind", extra1="a")
    assert client.receive(*WHERE, wait=0, key="extra1") == []
    late = client.insert_event("orders", "placed", "late", delay=HOUR)
    return [first.event.id, behind, again.event.id, late]


def test_waiting_events_are_listed_by_state(
    run: Run, run_json: RunJson, waiting: list[int]
) -> None:
    failed, behind = run_json("event", "list", "orders", "parked", "billing")
    assert [failed[name] for name in ("key", "ev_id", "ev_retry")] == ["a", waiting[0], 1]
    assert [behind[name] for name in ("key", "ev_id", "due")] == ["a", waiting[1], None]
    (retried,) = run_json("event", "list", "orders", "retrying", "billing")
    assert (retried["ev_id"], retried["ev_retry"], retried["ev_data"]) == (waiting[2], 1, "again")
    (delayed,) = run_json("event", "list", "orders", "delayed")
    assert delayed["ev_id"] == waiting[3]
    limited = run(*PARKED, "--limit", "1")
    assert limited.stderr == "only the first 1: --limit shows more\n"


def test_waiting_events_are_shown_with_their_state(run_json: RunJson, waiting: list[int]) -> None:
    shown = [run_json("event", "show", *WHERE, str(each)) for each in waiting]
    assert [row["state"] for row in shown] == ["parked", "parked", "retrying", "delayed"]
    assert [row["ev_data"] for row in shown] == ["first", "behind", "again", "late"]


def test_events_that_failed_are_retried_now(
    run: Run, client: pgqpy.Client, waiting: list[int]
) -> None:
    done = run("event", "retry", *WHERE, *map(str, waiting))
    assert done.stdout == "2\n"
    assert done.stderr == f"event {waiting[3]} is delayed: left alone\n"
    received: set[int] = set()

    def all_came() -> bool:
        for message in client.receive(*WHERE, wait=0, key="extra1"):
            received.add(message.event.id)
            message.done()
        return received == {*waiting[:3]}

    eventually(all_came)
    told = run("event", "retry", *WHERE, str(waiting[0])).stderr
    assert told == f"event {waiting[0]} is neither waiting nor dead: left alone\n"


def test_waiting_events_are_deleted_by_their_ids(
    run: Run, client: pgqpy.Client, waiting: list[int]
) -> None:
    done = run("event", "delete", *WHERE, str(waiting[0]), str(waiting[2]), str(waiting[3]))
    assert done.stdout == "2\n"
    assert done.stderr.splitlines() == [
        f"event {waiting[3]} is delayed: left alone",
        "2 event(s) in flight are dead events now: delete them again, or retry them",
    ]
    assert {each.ev_id for each in client.get_dead_events(*WHERE)} == {waiting[0], waiting[2]}
    assert run("event", "delete", *WHERE, str(waiting[2])).stdout == "1\n"
    (next_,) = client.receive(*WHERE, limit=10, wait=0, key="extra1")
    assert next_.event.id == waiting[1]


def test_kept_events_are_listed_and_deleted(
    run: Run, run_json: RunJson, client: pgqpy.Client, waiting: list[int]
) -> None:
    for event_id in waiting[:2]:
        client.call(calls.sharing.finish_event(*WHERE, event_id, keep=True))
    (first, second) = run_json("event", "list", "orders", "kept", "billing")
    assert [each["ev_id"] for each in (first, second)] == sorted(waiting[:2])
    assert first["ev_data"] == "first"
    assert run("event", "delete", *WHERE, *map(str, waiting[:3])).stdout == "3\n"
    assert run_json("event", "list", "orders", "kept", "billing") == []


def test_delayed_events_are_cancelled_for_all_consumers_or_events_for_one(
    run: Run, run_json: RunJson, client: pgqpy.Client, waiting: list[int]
) -> None:
    client.register_consumer("orders", "mailer")
    new = client.insert_event("orders", "placed", "new")
    told = run("event", "cancel", "orders", str(waiting[3]), "99").stdout.splitlines()
    assert [line.split() for line in told] == [
        ["event", "consumer", "state"],
        [str(waiting[3]), "billing", "cancelled"],
        [str(waiting[3]), "mailer", "cancelled"],
        ["99", "billing", "unknown"],
        ["99", "mailer", "unknown"],
    ]
    (hidden,) = run_json("event", "cancel", "orders", str(new), "--consumer", "mailer")
    assert hidden == {"id": new, "consumer": "mailer", "state": "cancelled"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("list orders dead", "name it after dead"),
        ("list orders delayed billing", "leave CONSUMER out"),
        ("list orders parked billing --since 1h", "--since is not for parked events"),
        ("list orders --error ValueError", "--error is not for oldest events"),
        ("list orders dead billing --follow", "--follow is not for dead events"),
        ("list orders dead billing --type a --type b", "one --type"),
        ("cancel orders", "ID..."),
        ("delete orders billing --until yesterday", "write 2026-01-31T14:00"),
        ("delete orders billing --until 1000000d", "1000000 days ago"),
    ],
)
def test_wrong_usage_is_told(run: Run, waiting: list[int], words: str, told: str) -> None:
    assert failed_with(run("event", *words.split()), 2, told)
