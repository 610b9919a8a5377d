"""`pgqpy consumer run` for a class with several queues."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import pgqpy
from tests.cli.support import Module, Run, Start
from tests.cli.test_consumer_health import health
from tests.cli.test_consumer_run import read
from tests.support.waiting import eventually

QUEUES = ("urgent", "orders")
MAILS = """
import threading
from pgqpy.consumers import {base}

class Mails({base}):
    queues = ["somewhere", "else"]
    name = "mails"
    shared = {shared}

    {kind}def process_event(self, event):
        with open("seen", "a") as file:
            file.write(self.queue + event.data + "\\n")
        if event.data == "hangs":
            threading.Event().wait()
"""


@pytest.fixture
def seen(client: pgqpy.Client, tmp_path: Path) -> Path:
    """Two queues with an event each, and the file that the handler writes."""
    for queue in QUEUES:
        client.create_queue(queue)
        client.register_consumer(queue, "mails")
        client.insert_event(queue, "placed", "one")
        client.tick_queue(queue)
    return tmp_path / "seen"


def lines(seen: Path) -> list[str]:
    return seen.read_text().splitlines() if seen.exists() else []


@pytest.mark.parametrize(("base", "kind"), [("Consumer", ""), ("AsyncConsumer", "async ")])
def test_each_queue_has_its_counters_and_its_line_in_the_list(
    module: Module, start: Start, run: Run, seen: Path, base: str, kind: str
) -> None:
    place = module(MAILS.format(base=base, kind=kind, shared=False))
    options = ("--set", "queues=urgent,orders", "--metrics-port", "0", "--log-format", "json")
    process = start(f"{place}:Mails", *options)
    assert process.stderr is not None
    where = json.loads(process.stderr.readline())["event"].removeprefix("metrics at ")
    labels = [f'{{consumer="mails",queue="{queue}"}}' for queue in QUEUES]
    wanted = [f"pgq_consumer_events_total{label} 1.0" for label in labels]
    eventually(lambda: all(line in read(where) for line in wanted))
    assert lines(seen) == ["urgentone", "ordersone"]
    status, body = health(where.replace("metrics", "healthz"))
    assert (status, body["queue"], body["consumer"]) == (200, "urgent, orders", "mails")
    listed = json.loads(run("consumer", "list", "--json").stdout)
    assert {(each["queue_name"], bool(each["runs"])) for each in listed} == {
        ("urgent", True),
        ("orders", True),
    }
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    texts = [json.loads(line)["event"] for line in err.splitlines()]
    assert {f"consumer mails of queue {queue} stops" for queue in QUEUES} <= set(texts)


def test_a_second_signal_does_not_wait_for_the_handler(
    module: Module, start: Start, client: pgqpy.Client, seen: Path
) -> None:
    place = module(MAILS.format(base="Consumer", kind="", shared=False))
    process = start(f"{place}:Mails", "--set", "queues=urgent,orders")
    eventually(lambda: len(lines(seen)) == 2)
    client.insert_event("orders", "placed", "hangs")
    client.tick_queue("orders")
    eventually(lambda: "ordershangs" in lines(seen))
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert any("finishing event" in line for line in process.stderr)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM


def test_workers_take_the_events_of_all_queues(
    module: Module, start: Start, client: pgqpy.Client, seen: Path
) -> None:
    place = module(MAILS.format(base="Consumer", kind="", shared=True))
    process = start(f"{place}:Mails", "--workers", "2", "--set", "queues=urgent,orders")
    eventually(lambda: sorted(lines(seen)) == ["ordersone", "urgentone"])
    workers = client.get_worker_info("orders", "mails")
    assert workers[0].mode == "shared"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "consumer mails of queue urgent, orders: worker process" in err
