from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from pgqpy import Client
from tests.cli.support import Connection, Examine, Run, RunJson, failed_with

DAILY = ("cron", "add", "report", "orders", "build", "--schedule", "0 7 * * *")


@pytest.fixture(autouse=True)
def _orders(client: Client) -> None:
    client.create_queue("orders")


def test_add_list_pause_resume_run_and_remove(run: Run, run_json: RunJson, client: Client) -> None:
    added = run(*DAILY, "--timezone", "Europe/Berlin", "--data", '{"n": 1}', "--extra1", "x")
    assert added.exit_code == 0, added.stderr
    assert added.stderr.startswith("added cron entry report: next due 20")
    assert " 07:00:00+0" in added.stderr
    (row,) = run_json("cron", "list")
    assert (row["name"], row["queue"], row["type"], row["missed"]) == (
        *("report", "orders", "build"),
        "one",
    )
    due = datetime.fromisoformat(row["next_due"])
    assert (due.hour, due > datetime.now(timezone.utc)) == (7, True)
    assert "changed cron entry report" in run(*DAILY).stderr
    assert run("cron", "set", "report", "paused=true").stderr == "cron entry report is paused\n"
    assert "already" in run("cron", "set", "report", "paused=true").stderr
    assert run(*DAILY, "--data", "again").stderr == "changed cron entry report: paused\n"
    assert run("cron", "run", "report").stdout == "1\n"
    client.register_consumer("orders", "late")
    assert (
        run("cron", "set", "report", "paused=false").stderr == "cron entry report is not paused\n"
    )
    assert "already" in run("cron", "set", "report", "paused=false").stderr
    assert "Europe" not in run("cron", "list").stdout
    assert run("cron", "remove", "report").exit_code == 0
    assert run_json("cron", "list") == []
    for words in (["remove", "report"], ["set", "report", "paused=true"], ["run", "report"]):
        assert failed_with(run("cron", *words), 1, "report", "pgqpy cron list")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--schedule", "0 7 * *"], "write minute, hour"),
        (["--schedule", "@daily", "--timezone", "Berlin"], "Europe/Berlin"),
    ],
)
def test_what_is_no_schedule_is_refused(run: Run, options: list[str], word: str) -> None:
    assert failed_with(run("cron", "add", "a", "orders", "t", *options), 1, word)


def test_queue_with_entries_is_dropped_by_force(run: Run) -> None:
    run(*DAILY)
    assert failed_with(run("queue", "drop", "orders"), 1, "cron entries", "--force")
    assert run("queue", "drop", "orders", "--force").exit_code == 0


def test_drop_on_a_terminal_names_the_entries(
    run: Run, monkeypatch: pytest.MonkeyPatch, connection: Connection
) -> None:
    run(*DAILY)
    monkeypatch.setattr("pgqpy.cli.queue.on_terminal", lambda: True)
    refused = run("queue", "drop", "orders", input="n\n")
    assert "cron entries (report)" in refused.stderr
    run("cron", "remove", "report")
    connection.execute("alter function pgq.get_cron_info rename to hidden")  # as in an older schema
    try:
        assert run("queue", "drop", "orders").exit_code == 0
    finally:  # the tests of a file share a database
        connection.execute("alter function pgq.hidden rename to get_cron_info")


def test_doctor_reports_entries_that_do_not_fire(
    run: Run, examine: Examine, connection: Connection
) -> None:
    def found(change: str, *values: object) -> tuple[str, str]:
        connection.execute(f"update pgq.cron set {change}".encode(), values)
        return examine()[1]["cron"]

    run(*DAILY)
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    assert found("cron_next = %s", soon) == ("ok", "1 cron entry is planned, and none is late; \n")
    assert found("cron_next = %s", soon - timedelta(hours=2))[0] == "fail"
    moved = "cron_planned = %s, cron_next = '9000-01-01 00:00+00'"
    verdict, text = found(moved, soon - timedelta(days=2))
    assert verdict == "fail"
    assert "did not fire: it is planned for 9000-01-01 00:00" in text
    assert "pgqpy cron set report paused=true" in text
    verdict, text = found("cron_next = '200000-01-01 00:00+00'")  # psycopg cannot read it
    assert (verdict, text.split(":")[0]) == ("fail", "this check could not run")
    assert "transaction" in examine()[1], "the checks after it ran"
    assert found("cron_next = null, cron_planned = %s", soon - timedelta(hours=2))[0] == "fail"
    assert found("cron_paused = %s", soon - timedelta(days=3))[0] == "warn"
    assert found("cron_schedule = '99 * * * *', cron_paused = null")[0] == "fail"
