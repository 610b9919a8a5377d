from __future__ import annotations

import pytest

import pgqpy
from pgqpy.calls.admin import QUEUE_SETTINGS
from tests.cli.support import Run, RunJson, failed_with


def test_create_list_show_and_drop(run: Run, run_json: RunJson) -> None:
    created = run("queue", "create", "orders")
    assert (created.exit_code, created.stdout) == (0, "")
    assert created.stderr == "created queue orders\n"
    again = run("queue", "create", "orders", "--set", "ticker_max_count=9")
    assert (again.exit_code, "exists already" in again.stderr) == (0, True)
    assert [row["queue_name"] for row in run_json("queue", "list")] == ["orders"]
    shown = run_json("queue", "show", "orders")
    assert shown["queue_rotation_period"] == 7200  # seconds
    assert shown["queue_disable_insert"] is False
    assert shown["queue_ticker_max_count"] == 500  # the second changed nothing
    assert shown["consumers"] == []
    assert run("queue", "drop", "orders").exit_code == 0
    assert run_json("queue", "list") == []


def test_create_with_a_wrong_setting_creates_nothing(run: Run, run_json: RunJson) -> None:
    result = run("queue", "create", "orders", "--set", "speed=9")
    assert failed_with(result, 1, '"speed"', "ticker_max_lag")
    assert run_json("queue", "list") == []


def test_set_changes_all_settings_or_none(run: Run, run_json: RunJson) -> None:
    run("queue", "create", "orders")
    fine = run("queue", "set", "orders", "ticker_max_lag=1 s", "rotation_period=1 hour")
    assert fine.exit_code == 0
    wrong = run("queue", "set", "orders", "ticker_max_lag=2 s", "rotation_period=-1 hour")
    assert failed_with(wrong, 1, "rotation_period", "interval")
    shown = run_json("queue", "show", "orders")
    assert (shown["queue_ticker_max_lag"], shown["queue_rotation_period"]) == (1, 3600)


@pytest.mark.parametrize("word", ["ticker_max_lag", "=3", ""])
def test_set_takes_only_assignments(run: Run, word: str) -> None:
    run("queue", "create", "orders")
    assert failed_with(run("queue", "set", "orders", word), 2, "name=value")


@pytest.mark.usefixtures("orders")
def test_drop_with_consumers_needs_force_without_a_terminal(run: Run, run_json: RunJson) -> None:
    assert failed_with(run("queue", "drop", "orders"), 1, "consumers", "--force")
    assert len(run_json("queue", "list")) == 1
    assert run("queue", "drop", "orders", "--force").exit_code == 0
    assert run_json("queue", "list") == []


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 1, 1), ("y\n", 0, 0), ("", 130, 1)])
def test_drop_with_consumers_asks_on_a_terminal(
    run: Run,
    run_json: RunJson,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    left: int,
) -> None:
    monkeypatch.setattr("pgqpy.cli.queue.on_terminal", lambda: True)
    result = run("queue", "drop", "orders", input=answer)
    assert "billing" in result.stderr
    assert result.exit_code == code
    assert len(run_json("queue", "list")) == left


def test_drop_without_consumers_does_not_ask(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("queue", "create", "orders")
    monkeypatch.setattr("pgqpy.cli.queue.on_terminal", lambda: True)
    assert run("queue", "drop", "orders").stderr == "dropped queue orders\n"


@pytest.mark.parametrize("command", ["create orders --set", "set orders"])
def test_only_a_setting_that_may_be_none_may_be_empty(run: Run, command: str) -> None:
    for name in QUEUE_SETTINGS:
        if command.startswith("set"):
            run("queue", "create", "orders")
        result = run("queue", *command.split(), f"{name}=")
        if name in ("retention", "per_tx_limit", "extra_maint"):
            assert result.exit_code == 0, result.stderr
        else:
            assert failed_with(result, 2, f"the setting {name} is empty: write {name}=VALUE")


def test_show_says_what_the_queue_keeps(run: Run, run_json: RunJson, client: pgqpy.Client) -> None:
    run("queue", "create", "orders")
    client.insert_events("orders", [("t", "d")] * 3)
    client.tick_queue("orders")
    shown = run_json("queue", "show", "orders")
    assert shown["estimated_events"] == 3
    assert shown["total_bytes"] > 0
    assert 0 <= shown["newest_event_age"] <= shown["oldest_event_age"] < 3600
    assert shown["queue_created"]
    assert shown["delayed_events"] == 0
    assert "estimated_events" in run("queue", "show", "orders").stdout
    run("queue", "create", "others")
    client.insert_events("orders", [("t", "d")] * 3, delay=3600)
    client.insert_event("others", "t", "d", delay=3600)
    assert run_json("queue", "show", "orders")["delayed_events"] == 3


@pytest.mark.usefixtures("orders")
def test_queue_is_renamed(run: Run, run_json: RunJson) -> None:
    run("queue", "create", "others")
    taken = run("queue", "rename", "orders", "others")
    assert failed_with(taken, 1, "queue others exists already")
    assert failed_with(run("queue", "rename", "orders", ""), 1, "the queue name is empty")
    assert run("queue", "rename", "orders", "purchases").stderr == "queue orders is now purchases\n"
    shown = run_json("queue", "show", "purchases")
    assert [each["consumer_name"] for each in shown["consumers"]] == ["billing"]
    for old in ("queue show orders", "event insert orders t d", "consumer show orders billing"):
        told = "queue orders was renamed to purchases; use the new name"
        assert failed_with(run(*old.split()), 1, told)


def test_works_on_the_real_extension(
    bare_run: Run, extension_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGQPY_DSN", extension_dsn)
    assert bare_run("queue", "create", "orders").exit_code == 0
    assert bare_run("consumer", "register", "orders", "billing").exit_code == 0
    assert bare_run("event", "insert", "orders", "placed", "1").stdout == "1\n"
    assert "billing" in bare_run("queue", "show", "orders").stdout
    assert "retry_events" in bare_run("consumer", "show", "orders", "billing").stdout
    dead = bare_run("event", "list", "orders", "dead", "billing")
    assert failed_with(dead, 1, "extension", "get_dead_events")
    assert bare_run("queue", "drop", "orders", "--force").exit_code == 0
