"""The doctor on advisory locks that others hold."""

from __future__ import annotations

from threading import Thread

import pytest

import pgqpy
from pgqpy import locks
from pgqpy.doctor import queues
from tests.cli.support import Connect, Connection, Examine, Login
from tests.support.databases import new_database
from tests.support.gates import wait_until_blocked
from tests.support.servers import Server


def test_locks_that_a_stranger_holds(
    examine: Examine, orders: pgqpy.Client, connection: Connection, connect: Connect, login: Login
) -> None:
    orders.create_queue("mails")
    assert "lock" not in examine()[1]
    ids = "select queue_id, sub_id from pgq.queue, pgq.subscription where queue_name = 'orders'"
    ((queue_id, sub_id),) = connection.execute(ids).fetchall()
    shared = {
        "7366513, 3": "a wrong number of standbys",
        f"7366515, {queue_id + 1}": "queue mails can be neither dropped nor repaired",
        "7366517, 5": "a sequence of a queue may wait",
    }
    held = {
        "7366513, 0": "every ticker stands by",
        "7366513, 1": "cannot be installed",
        "7366513, 2": "queues cannot be created",
        "7366513, 4": "no delayed event comes when it is due",
        "7366513, 7": "demo and simulate are refused",
        f"7366514, {sub_id}": "consumer billing of orders cannot run",
        f"7366515, {queue_id}": "queue orders is not ticked",
        f"7366518, {queue_id}": "no event of a queue can be cancelled for all",
    }
    guest = login()
    stranger = connect(user=guest, application_name="mallory")
    for lock in held:
        stranger.execute(f"select pg_advisory_lock({lock})")
    for lock in shared:
        stranger.execute(f"select pg_advisory_lock_shared({lock})")
    code, worst = examine()
    assert (code, worst["lock"][0]) == (1, "fail")
    for lock, words in (held | shared).items():
        (line,) = [line for line in worst["lock"][1].splitlines() if f"({lock})" in line]
        assert words in line
        pid = stranger.info.backend_pid
        assert f"mallory, server process {pid}, role {guest}" in line
        assert f"select pg_terminate_backend({pid})" in line
    assert "a ticker runs" not in worst["ticker"][1]


def test_a_session_that_waits_for_a_lock_is_named_not_the_holders_of_the_shared_lock(
    examine: Examine, orders: pgqpy.Client, connection: Connection, connect: Connect
) -> None:
    ids = "select queue_id, sub_id from pgq.queue, pgq.subscription"
    ((queue_id, sub_id),) = connection.execute(ids).fetchall()
    blocked = {
        f"7366514, {sub_id}": "no process of consumer billing of orders starts",
        f"7366515, {queue_id}": "queue orders is not ticked",
    }
    holder = connect(application_name="worker")
    for lock, words in blocked.items():
        holder.execute(f"select pg_advisory_lock_shared({lock})".encode())
        with connect(application_name="mallory") as waiter:
            take = f"select pg_advisory_lock({lock})".encode()
            waits = Thread(target=waiter.execute, args=(take,))
            waits.start()
            pid = waiter.info.backend_pid
            wait_until_blocked(connection, pid)
            level, said = examine()[1].get("lock", ("ok", ""))
            holder.execute(f"select pg_advisory_unlock_shared({lock})".encode())
            waits.join()
        assert level == "fail"
        (line,) = [line for line in said.splitlines() if f"({lock})" in line]
        assert words in line
        assert f"after mallory, server process {pid}" in line
        assert f"select pg_terminate_backend({pid})" in line


@pytest.mark.parametrize("table", ["event_{}_1", "truncation_0"])
def test_a_session_that_stops_a_rotation_is_named(
    client: pgqpy.Client, connection: Connection, connect: Connect, table: str
) -> None:
    client.create_queue("orders")
    reader = connect(autocommit=False)
    ((queue_id,),) = connection.execute("select queue_id from pgq.queue").fetchall()
    reader.execute(f"select from pgq.{table.format(queue_id)}".encode())
    (row,) = connection.execute(queues.ROTATION).fetchall()
    assert row[-1] == [f"server process {reader.info.backend_pid}"]
    reader.execute("prepare transaction 'reading'")
    (row,) = connection.execute(queues.ROTATION).fetchall()
    connection.execute("rollback prepared 'reading'")
    assert row[-1] == ["a prepared transaction (pg_prepared_xacts)"]


def test_a_session_of_another_database_holds_nothing_up_here(
    client: pgqpy.Client, connection: Connection, connect: Connect, server: Server, template: str
) -> None:
    """Databases that are copies of one template have tables with the same oids."""
    lock = "select from pgq.registration for update"
    with new_database(server, template) as name:
        other = connect(server.dsn(name), autocommit=False)
        other.execute(lock)
        assert connection.execute(locks.LOCKERS).fetchall() == []
        other.close()
    here = connect(autocommit=False)
    here.execute(lock)
    ((locker,),) = connection.execute(locks.LOCKERS).fetchall()
    assert locker[0] == str(here.info.backend_pid)
