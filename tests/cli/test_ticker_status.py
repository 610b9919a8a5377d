"""``pgqpy ticker status``."""

from __future__ import annotations

import json
from threading import Thread

import pgqpy
from tests.cli.support import Connect, Connection, Run, Spawn
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

LEAD = "select pg_advisory_lock(7366513, 0)"


def test_status_shows_the_ticker_and_the_standbys(
    run: Run, dsn: str, client: pgqpy.Client, spawn: Spawn
) -> None:
    client.create_queue("orders")
    client.create_queue("later")
    client.set_queue_config("later", "ticker_paused", "true")
    active = spawn("-m", "pgqpy", "ticker", "run", "--dsn", f"{dsn} application_name=first")
    active.wait_for_output("active")
    spawn("-m", "pgqpy", "ticker", "run", "--dsn", dsn).wait_for_output("standby")
    result = run("ticker", "status", "--json")
    rows = {row["queue"]: row for row in json.loads(result.stdout)}
    assert result.exit_code == 0
    assert {name: row["state"] for name, row in rows.items()} == {"orders": "ok", "later": "paused"}
    assert rows["orders"]["ticker"].startswith("first, server process")
    assert (rows["orders"]["standbys"], rows["orders"]["new_events"]) == (1, 0)
    assert rows["orders"]["since"]
    assert rows["orders"]["last_tick_age"] >= 0
    assert "first, server process" in run("ticker", "status").stdout
    active.kill()
    pid = rows["orders"]["pid"]
    gone = eventually(lambda: _other(run, pid))
    assert gone
    assert "pgqpy ticker, server process" in gone["ticker"]


def states(run: Run) -> tuple[int, dict[str, str]]:
    """Return the exit code, and the state of each queue."""
    result = run("ticker", "status", "--json")
    return result.exit_code, {row["queue"]: row["state"] for row in json.loads(result.stdout)}


def _other(run: Run, pid: int) -> dict[str, str] | None:
    rows = json.loads(run("ticker", "status", "--json").stdout)
    return next((row for row in rows if row["pid"] not in (pid, None)), None)


def test_a_database_without_a_ticker_is_unhealthy(run: Run, client: pgqpy.Client) -> None:
    assert run("ticker", "status").exit_code == 1
    client.create_queue("orders")
    assert states(run) == (1, {"orders": "no ticker"})


def test_a_late_and_a_skipped_queue_are_unhealthy(
    run: Run, client: pgqpy.Client, connection: Connection, connect: Connect
) -> None:
    client.create_queue("orders")
    client.create_queue("skipped")
    leader, holder = connect(), connect()
    leader.execute(LEAD)
    assert run("ticker", "status").exit_code == 0
    holder.execute(
        "select pg_advisory_lock(7366515, queue_id) from pgq.queue where queue_name = 'skipped'"
    )
    connection.execute("update pgq.tick set tick_time = now() - interval '1 hour'")
    assert states(run) == (1, {"orders": "late", "skipped": "skipped"})


def test_a_queue_whose_lock_a_session_waits_for_is_skipped(
    run: Run, client: pgqpy.Client, connection: Connection, connect: Connect
) -> None:
    client.create_queue("orders")
    leader, holder, waiter = connect(), connect(), connect()
    leader.execute(LEAD)
    holder.execute("select pg_advisory_lock_shared(7366515, queue_id) from pgq.queue")
    assert run("ticker", "status").exit_code == 0
    take = "select pg_advisory_lock(7366515, queue_id) from pgq.queue"
    waits = Thread(target=waiter.execute, args=(take,))
    waits.start()
    wait_until_blocked(connection, waiter.info.backend_pid)
    found = states(run)
    holder.close()
    waits.join()
    waiter.close()
    assert found == (1, {"orders": "skipped"})


def test_a_database_that_does_not_answer_does_not_hide_the_others(
    bare_run: Run, dsn: str, connect: Connect, empty_dsn: str, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    connect().execute(LEAD)
    places = [word for each in (dsn, "host=/nonexistent", empty_dsn) for word in ("--dsn", each)]
    result = bare_run("ticker", "status", "--json", *places)
    assert result.exit_code == 1
    found = [(row["queue"], row["state"]) for row in json.loads(result.stdout)]
    assert found == [("orders", "ok"), (None, "failed"), (None, "failed")]
    assert len(result.stderr.splitlines()) == 2
    assert "pgqpy schema install" in result.stderr
