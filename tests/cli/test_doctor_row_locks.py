"""The doctor on consumers whose calls may wait for another session's transaction."""

from __future__ import annotations

import pytest

import pgqpy
from tests.cli.support import Connect, Connection, Examine
from tests.cli.test_doctor_running import LOCK, age


@pytest.fixture
def event(orders: pgqpy.Client, connection: Connection) -> int:
    """An event that has waited for consumer billing of queue orders for 16 minutes."""
    event = orders.insert_event("orders", "type", "data")
    orders.tick_queue("orders")
    age(connection, "16 minutes")
    return event


MAY_WAIT = "if it runs and its log tells of a lock, it may wait for"


def test_who_may_hold_up_a_consumer_that_nobody_seems_to_run_is_named(
    examine: Examine, event: int, connect: Connect, connection: Connection
) -> None:
    locker = connect(autocommit=False, application_name="locker")
    locker.execute("select pgq.cancel_event('orders', array[%s::bigint])", [event])
    level, said = examine()[1]["running"]
    assert level == "fail"
    end = f"select pg_terminate_backend({locker.info.backend_pid}); else run it"
    for words in (MAY_WAIT, "locker, server process", "no session runs", end):
        assert words in said
    locker.execute("prepare transaction 'forgotten'")
    try:
        said = examine()[1]["running"][1]
    finally:
        connection.execute("rollback prepared 'forgotten'")
    assert f"{MAY_WAIT} prepared transaction 'forgotten'" in said
    assert "rollback prepared 'forgotten'; else" in said


def test_long_transaction_of_a_consumer_that_runs_is_not_blamed(
    examine: Examine, event: int, client: pgqpy.Client, connect: Connect, connection: Connection
) -> None:
    own = connect(autocommit=False)
    own.execute(LOCK)
    client.register_consumer_at("orders", "idle", 1)
    age(connection, "16 minutes")
    assert own.execute("select pgq.next_batch('orders', 'billing')").fetchone() != (None,)
    level, said = examine()[1]["running"]
    assert level == "fail"
    assert "no session runs consumer idle" in said
    assert MAY_WAIT not in said
