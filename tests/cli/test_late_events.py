"""What the commands say of events whose transaction was open at the consumer's tick."""

from __future__ import annotations

import pytest

import pgqpy
from tests.cli.support import Connect, Connection, Examine, Run, RunJson, failed_with
from tests.cli.test_doctor_running import LOCK, age
from tests.client.conftest import open_batch


@pytest.fixture
def late(orders: pgqpy.Client, connect: Connect, connection: Connection) -> Connection:
    """A transaction with three events that is open; consumer billing has finished a tick."""
    producer = connect(autocommit=False)
    pgqpy.Client(producer).insert_events("orders", [("type", "data")] * 3)
    orders.finish_batch(open_batch(orders))
    connection.execute("select pgq.tick_queue('orders')")
    return producer


def test_doctor_fails_if_nobody_runs_the_consumer(
    late: Connection, client: pgqpy.Client, connection: Connection, examine: Examine
) -> None:
    age(connection, "20 minutes")
    assert examine()[1]["running"][0] == "ok"
    late.commit()
    client.tick_queue("orders")
    assert examine()[1]["running"][0] == "ok"  # they wait for a moment only
    age(connection, "16 minutes")
    code, worst = examine()
    assert (code, worst["running"][0]) == (1, "fail")
    assert "3 event(s) wait, the oldest for 16 min" in worst["running"][1]


@pytest.mark.parametrize("runs", [True, False])
def test_doctor_sees_an_open_batch_without_new_ids(
    late: Connection,
    client: pgqpy.Client,
    connect: Connect,
    connection: Connection,
    examine: Examine,
    runs: bool,
) -> None:
    late.rollback()  # so the batch is even empty
    assert client.next_batch("orders", "billing")
    session = connect(application_name="billing app")
    if runs:
        session.execute(LOCK)
    age(connection, "16 minutes")
    client.tick_queue("orders")
    worst = examine()[1]
    assert worst["running"][0] == ("warn" if runs else "fail")
    words = "finished nothing for 16 min" if runs else "is open, last seen 16 min"
    assert words in worst["running"][1]


def test_seek_and_unregister_ask_before_such_events_are_lost(
    late: Connection, client: pgqpy.Client, run: Run, run_json: RunJson
) -> None:
    seek = ("consumer", "seek", "orders", "billing")
    late.commit()
    tick = client.tick_queue("orders")
    assert tick
    assert run_json("consumer", "show", "orders", "billing")["pending_events"] == 3
    assert failed_with(run(*seek, "end"), 1, "skips about 3 event(s)", "add --yes")
    assert run(*seek, str(tick.tick_id - 1)).exit_code == 0  # sees none of them
    assert failed_with(run(*seek, str(tick.tick_id)), 1, "skips about 3 event(s)", "add --yes")
    refused = run("consumer", "unregister", "orders", "billing")
    assert failed_with(refused, 1, "3 pending event(s)", "add --force")
    moved = run(*seek, "end", "--yes")
    assert moved.stderr.endswith(": about 3 event(s) are skipped\n")
