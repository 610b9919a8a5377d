"""Each check judges rows, without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pgqpy.client.opening import not_trusted
from pgqpy.doctor import Finding, blockers, consumers, queues, schema
from pgqpy.install import ROLES, Status

STRANGER = not_trusted("schema pgq", "mallory", "app", "shop", whole=True)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)

STATUS = Status(
    database="shop",
    user="app",
    server_version=180000,
    shipped=6,
    installed=6,
    schema_exists=True,
    owner="owner",
    extension=None,
    roles=ROLES,
    missing_roles=(),
    queues=0,
)


def levels(findings) -> list[str]:
    return [found.level for found in findings]


def only(findings) -> Finding:
    (found,) = findings
    return found


@pytest.mark.parametrize(
    ("change", "level", "remedy"),
    [
        ({}, "ok", ""),
        ({"installed": None, "schema_exists": False}, "fail", "pgqpy schema install"),
        ({"installed": 5}, "fail", "pgqpy schema install"),
        ({"installed": 7}, "fail", "pip install --upgrade pgqpy"),
        ({"installed": None}, "fail", "rename"),
        ({"installed": None, "extension": "3.5"}, "ok", ""),
        ({"installed": None, "untrusted": STRANGER}, "fail", "drop the schema"),
    ],
)
def test_schema(change: dict[str, Any], level: str, remedy: str) -> None:
    found = only(schema.judge_schema(replace(STATUS, **change)))
    assert found.level == level
    assert remedy in found.remedy


SERVER = {"standby": False, "synchronous_commit": "on"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["ok"]),
        ({"synchronous_commit": "local"}, ["ok"]),
        ({"synchronous_commit": "off"}, ["warn"]),
        ({"standby": True}, ["fail", "ok"]),
    ],
)
def test_server(change: dict[str, Any], expected: list[str]) -> None:
    assert levels(schema.judge_server([{**SERVER, **change}])) == expected


def right(role: str, **change: object) -> dict[str, object]:
    may = {"role_exists": True, "role_may": True, "user_may": True}
    return {"user": "app", "role": role, "right_name": f"use {role}", **may, **change}


def test_rights_of_the_user_are_listed() -> None:
    found = only(schema.judge_rights([right("pgq_reader"), right("pgq_writer", user_may=False)]))
    assert found.level == "ok"
    assert found.what == "role app may use pgq_reader, not: use pgq_writer (pgq_writer)"


def test_missing_role_fails() -> None:
    rows = [right("pgq_ticker", role_exists=False, role_may=None), right("pgq_reader")]
    assert levels(schema.judge_rights(rows)) == ["fail", "ok"]


def test_rights_of_public_are_compared_and_the_first_named() -> None:
    assert list(schema.judge_public([])) == []
    rows = [{"right_name": f"EXECUTE on pgq.f{n}()", "wanted": False} for n in range(5)]
    found = list(schema.judge_public([*rows, {"right_name": "USAGE on pgq", "wanted": True}]))
    assert levels(found) == ["fail", "fail"]
    assert "has 5 right(s)" in found[0].what
    assert "f2(), …" in found[0].what
    assert "f3()" not in found[0].what
    assert found[1].what == "PUBLIC lacks 1 right(s) that the engine grants: USAGE on pgq"
    assert {each.remedy.split(":")[0] for each in found} == {"pgqpy schema install"}


def test_transaction_ids_that_ran_backwards_fail() -> None:
    rows = [
        {"queue_name": "fine", "tick_xmax": 10, "now_xmax": 10, "sequence_behind": None},
        {"queue_name": "restored", "tick_xmax": 11, "now_xmax": 10, "sequence_behind": False},
        {"queue_name": "copied", "tick_xmax": 10, "now_xmax": 10, "sequence_behind": True},
    ]
    found = list(schema.judge_restored(rows))
    assert {(each.level, each.remedy) for each in found} == {("fail", "pgqpy schema repair")}
    assert ["queue restored" in found[0].what, "queue copied" in found[1].what] == [True, True]
    assert levels(schema.judge_restored(rows[:1])) == ["ok"]


@pytest.mark.parametrize(
    ("lag", "pending", "level"),
    [(HOUR, 5, "ok"), (3 * HOUR, 5, "fail"), (3 * HOUR, 0, "ok")],
)
def test_a_consumer_further_behind_than_a_rotation_blocks_it(
    lag: timedelta, pending: int, level: str
) -> None:
    row = {
        "queue_name": "orders",
        "consumer_name": "billing",
        "lag": lag,
        "last_seen": HOUR,
        "pending_events": pending,
        "rotation_period": 2 * HOUR,
        "owner": "billing",
        "switched": HOUR,
    }
    found = only(consumers.judge_consumers([row]))
    assert found.level == level
    if level == "fail":
        for words in ("billing", "orders", "3 h behind", "5 pending events"):
            assert words in found.what
        assert "pgqpy consumer unregister orders billing" in found.remedy


def test_overdue_rotation_retries_and_dead_events() -> None:
    rotation = [
        {"queue_name": "q", "overdue": overdue, "period": 2 * HOUR, "holders": ["server process 7"]}
        for overdue in (-HOUR, MINUTE, HOUR, 3 * HOUR)
    ]
    late, very_late = queues.judge_rotation(rotation)
    assert (late.level, very_late.level) == ("warn", "fail")
    assert "the table to truncate is used by server process 7" in late.what
    assert levels(consumers.judge_retries([retries(overdue=SECOND), retries(overdue=HOUR)])) == [
        "fail"
    ]
    dead = [{"queue_name": "q", "consumer_name": "c", "events": 3}]
    assert levels(consumers.judge_dead(dead)) == ["warn"]


def retries(**change: object) -> dict[str, object]:
    counts = {"due": 1, "overdue": -HOUR, "failing": 0, "retries": 7}
    return {"queue_name": "q", "consumer_name": "c", **counts, **change}


def transaction(age: timedelta, who: str = "pid 7") -> dict[str, object]:
    told = {"who": who, "user": "app", "application": "psql", "state": "idle", "age": age}
    return {"role": "app", "sees_all": True, "has_read_only": False, **told}


@pytest.mark.parametrize(
    ("age", "level"), [(SECOND, "ok"), (MINUTE, "warn"), (6 * MINUTE, "fail"), (-HOUR, "warn")]
)
def test_long_transactions_are_named(age: timedelta, level: str) -> None:
    found = only(blockers.judge_transactions([transaction(age)], limit=5 * MINUTE))
    assert found.level == level
    assert "pid 7 (user app, psql, idle)" in found.what


@pytest.mark.parametrize("age", [None, SECOND / 2, 2 * SECOND])
def test_a_role_that_sees_only_its_own_transactions_gets_one_skipped_finding(
    age: timedelta | None,
) -> None:
    row = transaction(age) if age else {"role": "app", "sees_all": False, "who": None}
    found = only(blockers.judge_transactions([{**row, "sees_all": False}], limit=5 * MINUTE))
    assert found.level == "skipped"
    assert ("pid 7" if age == 2 * SECOND else "none is older than 1 s") in found.what
    assert "cannot see those of others" in found.what
    assert found.remedy == 'grant pg_read_all_stats to "app" lets it see them'


def test_slots_that_nobody_uses_or_that_lag_are_named() -> None:
    rows = [
        {"slot_name": "used", "active": True, "xids": 5},
        {"slot_name": "lost", "active": False, "xids": 5},
        {"slot_name": "late", "active": True, "xids": 2_000_000},
    ]
    found = list(blockers.judge_slots(rows))
    assert [(each.level, each.what.split()[2]) for each in found] == [
        ("warn", "lost"),
        ("fail", "late"),
    ]


def test_captured_tables() -> None:
    row: dict[str, Any] = {"queue_name": "q", "table_name": "public.orders"}
    row |= {"table_id": "public.orders", "problems": []}
    assert list(queues.judge_captures([])) == []
    assert only(queues.judge_captures([row])).level == "ok"
    found = only(queues.judge_captures([{**row, "problems": ["it is slow"]}]))
    assert (found.level, found.check) == ("warn", "capture")
    assert found.what == "table public.orders, captured by q: it is slow"
    assert "pgqpy capture add public.orders --queue q" in found.remedy
