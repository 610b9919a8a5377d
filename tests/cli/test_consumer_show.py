"""What `pgqpy consumer list` and `show` tell of the workers of a shared consumer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.cli.support import Connect, Run, RunJson, failed_with

if TYPE_CHECKING:
    import pgqpy

TAKE = "select pgq.take_part('orders', 'billing', %s, %s, %s::interval)"


def insert_one(client: pgqpy.Client) -> None:
    client.insert_event("orders", "placed", "one")
    client.tick_queue("orders")


def test_list_and_show_tell_what_each_worker_holds(
    run: Run, run_json: RunJson, client: pgqpy.Client, connect: Connect
) -> None:
    client.create_queue("orders")
    session = connect(application_name="billing app")
    for worker in ("1", "2"):
        session.execute("select pgq.register_subconsumer('orders', 'billing', %s)", [worker])
    client.insert_event("orders", "placed", "one")
    client.tick_queue("orders")
    took = session.execute("select batch_id from pgq.take_part('orders', 'billing', '2', 'run')")
    (batch,) = took.fetchone() or (None,)
    session.execute(
        "select pg_advisory_lock(7366514, r.sub_id) from pgq.registration r"
        " join pgq.consumer c on c.co_id = r.sub_consumer where c.co_name = 'billing.2'"
    )
    (listed,) = run_json("consumer", "list")
    assert (listed["consumer_name"], listed["mode"]) == ("billing", "shared")
    assert run("consumer", "list").stdout.splitlines()[1].endswith("1 worker(s)")
    idle, busy = run_json("consumer", "show", "orders", "billing")["workers"]
    assert [idle[name] for name in ("worker", "batch", "pid")] == ["1", None, None]
    assert [busy[name] for name in ("worker", "batch", "attempt")] == ["2", batch, 1]
    assert [busy[name] for name in ("last_tick", "next_tick", "alive")] == [1, 2, True]
    assert (busy["pid"], busy["application"]) == (session.info.backend_pid, "billing app")
    first, second = run("consumer", "show", "orders", "billing").stdout.splitlines()[-2:]
    assert re.match(r"worker 1 +idle, last seen .* ago, runs: no$", first)
    held = rf"worker 2 +batch {batch} \(ticks 1 to 2\), attempt 1, last progress .* ago, last seen"
    assert re.match(rf"{held} .* ago, runs: pid {busy['pid']}, billing app$", second)
    refused = run("consumer", "unregister", "orders", "billing")
    assert failed_with(refused, 1, "1 open batch(es) of workers", "1 worker(s)", "--force")
    assert failed_with(run("consumer", "set", "orders", "billing", "mode=plain"), 1, "running")
    assert run("consumer", "unregister", "orders", "billing", "--force").exit_code == 0
    assert run_json("consumer", "list") == []


def test_show_says_who_has_a_batch_as_far_as_the_server_knows(
    run: Run, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    for worker, holder, lease in (
        ("leased", "run 1", "1 hour"),
        ("unknown", None, None),
        ("dead", "app1:2:x", None),
    ):
        client.connection.execute(
            "select pgq.register_subconsumer('orders', 'billing', %s)", [worker]
        )
        insert_one(client)
        client.connection.execute(TAKE, [worker, holder, lease])
    lines = run("consumer", "show", "orders", "billing").stdout.splitlines()[-3:]
    told = {line.split()[1]: line.rpartition(" ago, ")[2] for line in lines}
    assert re.match(r"leased for (1 h|59 min \d+ s) more$", told.pop("leased"))
    assert told == {"unknown": "runs: not known", "dead": "died (app1:2): waits to be taken over"}
    assert "1 worker(s)" in run("consumer", "list").stdout


def test_a_queue_shows_its_consumers_without_their_workers(
    run_json: RunJson, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.connection.execute("select pgq.register_subconsumer('orders', 'billing', '1')")
    (shown,) = run_json("queue", "show", "orders")["consumers"]
    assert shown["consumer_name"] == "billing"


def test_a_batch_that_killed_its_worker_is_shown_with_its_attempt(
    run: Run, run_json: RunJson, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    client.connection.execute("select pgq.register_subconsumer('orders', 'billing', '1')")
    insert_one(client)
    for number in range(3):
        client.connection.execute(TAKE, ["1", f"run {number}", None])
    (worker,) = run_json("consumer", "show", "orders", "billing")["workers"]
    assert (worker["attempt"], worker["part_size"]) == (3, 30)
    assert (
        "attempt 3, parts of 30, last progress"
        in run("consumer", "show", "orders", "billing").stdout
    )


def test_a_worker_with_a_lease_is_shown_while_it_has_a_batch(
    run: Run, orders: pgqpy.Client, connect: Connect
) -> None:
    insert_one(orders)
    took = connect().execute(TAKE, [None, "run", "1 hour"])
    assert took.fetchone() is not None
    shown = run("consumer", "show", "orders", "billing").stdout
    assert re.search(r"worker lease-1 +batch \d+ .* leased for .* more\n", shown)
    for (batch,) in connect().execute("select pos_batch from pgq.position where pos_batch > 0"):
        orders.finish_batch(batch)
    assert "lease-1" not in run("consumer", "show", "orders", "billing").stdout
