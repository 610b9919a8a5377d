"""What the commands tell of a consumer with lanes."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from tests.cli.support import Connect, Module, Run, RunJson, Start, failed_with
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pgqpy

BILLING = """
import os
from pgqpy.consumers import Consumer

class Billing(Consumer):
    queue, name = "orders", "billing"
    lanes, key = 4, "extra1"

    def process_event(self, event):
        with open("handled", "a") as file:
            file.write(f"{os.getpid()} {event.data}\\n")
"""
TAKE = "select batch_id, worker from pgq.take_lane('orders', 'billing', %s, %s::interval)"
LOCK = """
    select pg_advisory_lock_shared(7366516, hashtext(%s)), pg_advisory_lock_shared(7366514, sub_id)
      from pgq.registration where sub_parent is null
"""


def insert(client: pgqpy.Client, *numbers: int) -> None:
    for number in numbers:
        events = [("placed", f"{key}:{number}", f"key{key}") for key in range(12)]
        client.insert_events("orders", events)
        client.tick_queue("orders")


def make_lanes(run: Run, client: pgqpy.Client, number: str = "4") -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    made = run("consumer", "set", "orders", "billing", f"lanes={number}", "key=extra1")
    assert made.stderr == f"billing on orders: {number} lane(s) by extra1\n"


def test_list_and_show_tell_what_each_lane_is_at(
    run: Run, run_json: RunJson, client: pgqpy.Client, connect: Connect
) -> None:
    make_lanes(run, client, "2")
    sessions = [connect(application_name=f"app {number}") for number in (1, 2)]
    for number, session in enumerate(sessions):
        session.execute(LOCK, [f"app1:{number}:x"])
    assert run("consumer", "list").stdout.splitlines()[1].endswith("2 worker(s)")
    insert(client, 1)
    (batch, lane) = sessions[0].execute(TAKE, ["app1:0:x", None]).fetchone() or (None, None)
    shown = run_json("consumer", "show", "orders", "billing")
    assert (shown["mode"], shown["processes"], shown["runs"]) == ("lanes", 2, None)
    assert shown["pending_events"] == 12
    (busy,) = (each for each in shown["workers"] if each["batch"] is not None)
    assert [busy[name] for name in ("worker", "batch", "alive")] == [lane, batch, True]
    assert (busy["pid"], busy["application"]) == (sessions[0].info.backend_pid, "app 1")
    text = run("consumer", "show", "orders", "billing").stdout
    assert re.search(r"^runs +2 worker\(s\), 1 lane\(s\) at work$", text, re.MULTILINE)
    held = rf"^lane {lane} +batch {batch} \(ticks 1 to 2\), attempt 1, .* pid {busy['pid']}, app 1$"
    assert re.search(held, text, re.MULTILINE)
    other = next(each["worker"] for each in shown["workers"] if each != busy)
    assert re.search(rf"^lane {other} +at tick 1, lag .*, last seen .* ago$", text, re.MULTILINE)


def test_a_lane_whose_process_died_or_leases_it_is_shown(run: Run, client: pgqpy.Client) -> None:
    make_lanes(run, client, "2")
    insert(client, 1)
    for holder, lease in (("app1:8:x", "1 hour"), ("app1:7:x", None)):
        client.connection.execute(TAKE, [holder, lease])
    told = run("consumer", "show", "orders", "billing").stdout
    assert "died (app1:7): waits to be taken over" in told
    assert re.search(r"leased for (1 h|59 min \d+ s) more", told)
    assert re.search(r"^runs +1 lane\(s\) at work$", told, re.MULTILINE)


def test_unregister_and_another_mode_tell_of_lanes(
    run: Run, client: pgqpy.Client, connect: Connect
) -> None:
    make_lanes(run, client, "2")
    insert(client, 1)
    refused = run("consumer", "set", "orders", "billing", "mode=plain")
    assert failed_with(refused, 1, "has several lanes", "pgq.set_lanes('orders', 'billing', 1")
    session = connect()
    session.execute(LOCK, ["app1:1:x"])
    session.execute(TAKE, ["app1:1:x", None])
    words = ["12 pending event(s)", "1 open batch(es) of lanes", "1 worker(s), 1 lane(s) at work"]
    refused = run("consumer", "unregister", "orders", "billing")
    assert failed_with(refused, 1, *words, "--force")
    session.close()
    assert run("consumer", "unregister", "orders", "billing", "--force").exit_code == 0
    assert client.get_consumer_info("orders") == []


def test_processes_of_one_command_share_the_lanes(
    module: Module, start: Start, run: Run, client: pgqpy.Client, tmp_path: Path
) -> None:
    make_lanes(run, client)
    insert(client, 1, 2)
    dsn = client.connection.info.dsn
    process = start(module(BILLING) + ":Billing", "--workers", "3", "--dsn", dsn)
    eventually(lambda: "3 worker(s)" in run("consumer", "list").stdout)
    insert(client, 3, 4)
    handled = tmp_path / "handled"
    eventually(lambda: handled.exists() and handled.read_text().count("\n") == 48)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    by_key: dict[str, list[str]] = {}
    for line in handled.read_text().splitlines():
        key, number = line.split()[1].split(":")
        by_key.setdefault(key, []).append(number)
    assert all(numbers == ["1", "2", "3", "4"] for numbers in by_key.values())


def test_workers_of_a_class_without_lanes_are_refused(
    module: Module, run: Run, client: pgqpy.Client
) -> None:
    make_lanes(run, client)
    place = module(BILLING.replace('lanes, key = 4, "extra1"', "shared = True"))
    refused = run("consumer", "run", f"{place}:Billing", "--workers", "2")
    assert failed_with(refused, 1, "is one with lanes, and Billing is shared")
