"""The doctor on consumers whose registration another session has locked."""

from __future__ import annotations

import pytest

import pgqpy
from tests.cli.support import Connect, Connection, Examine
from tests.cli.test_doctor_running import age


@pytest.mark.parametrize("prepared", [False, True])
def test_who_has_locked_the_row_of_a_consumer_is_named(
    examine: Examine,
    client: pgqpy.Client,
    connect: Connect,
    connection: Connection,
    prepared: bool,
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    client.insert_events("orders", [("type", "data")] * 3)
    client.tick_queue("orders")
    age(connection, "16 minutes")
    locker = connect(autocommit=False, application_name="locker")
    locker.execute("select pgq.set_stall_policy('orders', 'billing', 'warn', '1 hour')")
    end = f"select pg_terminate_backend({locker.info.backend_pid})"
    if prepared:
        locker.execute("prepare transaction 'forgotten'")
        end = "rollback prepared 'forgotten'"
    try:
        level, said = examine()[1]["running"]
    finally:
        if prepared:
            connection.execute("rollback prepared 'forgotten'")
    assert level == "fail"
    for words in (
        "consumer billing of queue orders: its calls wait for",
        "forgotten" if prepared else "locker, server process",
        "about 3 event(s) wait",
        end,
    ):
        assert words in said
    assert "unregister" not in said
