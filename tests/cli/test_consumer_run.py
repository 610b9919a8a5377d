"""`pgqpy consumer run module:Class`: finding the class, and running it as a process."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path

import pytest

import pgqpy
from tests.cli.support import Module, Run, RunJson, Start, failed_with
from tests.consumers.harness import short_grace
from tests.support.waiting import eventually

BILLING = """
from pgqpy.consumers import {base}

class Billing({base}):
    queue = "orders"
    name = "billing"

    {kind}def process_event(self, event):
        with open("seen", "a") as file:
            file.write(event.data + "\\n")
"""

RUNNING = """
    select count(*) from pg_locks where locktype = 'advisory' and classid = 7366514
        and database = (select oid from pg_database where datname = current_database())
"""


def place_order(client: pgqpy.Client) -> None:
    """Make the queue and its consumer, with one event in the first batch."""
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    client.insert_event("orders", "placed", "one")
    client.tick_queue("orders")


@pytest.mark.parametrize(
    ("base", "kind", "number"),
    [("Consumer", "", signal.SIGTERM), ("AsyncConsumer", "async ", signal.SIGINT)],
)
def test_it_processes_events_until_a_signal(
    module: Module,
    start: Start,
    tmp_path: Path,
    client: pgqpy.Client,
    base: str,
    kind: str,
    number: signal.Signals,
) -> None:
    client.create_queue("orders")
    process = start(module(BILLING.format(base=base, kind=kind)) + ":Billing")
    eventually(lambda: process.poll() is not None or client.get_consumer_info("orders", "billing"))
    assert process.poll() is None, process.communicate()
    client.insert_event("orders", "placed", "one")
    client.tick_queue("orders")
    seen = tmp_path / "seen"
    eventually(lambda: seen.exists() and seen.read_text() == "one\n")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err
    assert "consumer billing of queue orders" in err


def test_a_run_is_listed_and_a_second_that_does_not_wait_is_refused_while_it_lives(
    module: Module, start: Start, client: pgqpy.Client, run: Run, run_json: RunJson
) -> None:
    client.create_queue("orders")
    place = module(BILLING.format(base="Consumer", kind="")) + ":Billing"
    first = start(place)
    eventually(lambda: client.connection.execute(RUNNING).fetchone() == (1,))
    (listed,) = run_json("consumer", "list")
    assert listed["runs"]["application"] == "pgqpy consumer billing"
    with short_grace():
        second = run("consumer", "run", "--no-wait", place)
    assert second.exit_code == 1
    last = second.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert "billing" in last
    assert first.poll() is None


@pytest.mark.parametrize("place", ["", "billing", "billing:", ":Billing"])
def test_the_argument_must_name_module_and_class(bare_run: Run, place: str) -> None:
    assert failed_with(bare_run("consumer", "run", place), 2, "module:Class")
    assert failed_with(bare_run("consumer", "run", "nowhere.billing:Billing"), 1, "no module")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class Biling: pass", ["no class Billing"]),
        ("class Billing: pass", ["no Consumer", "subclass"]),
        ("Billing = 5", ["no Consumer"]),
        ("import no_such_module_anywhere", ["needs a module", "no_such_module_anywhere"]),
        ("class Billing(:", ["does not compile", "line 1"]),
        ("\n1/0", ["fails when it is imported", "ZeroDivisionError", "line 2"]),
        (
            "from pgqpy.consumers import Consumer\nclass Billing(Consumer): queue = name = 'x'",
            ["process_event or process_batch"],
        ),
        (
            BILLING.format(base="Consumer", kind="")
            + "\n    def __init__(self, dsn): raise LookupError('no rates')",
            ["Billing cannot be made: LookupError: no rates"],
        ),
    ],
)
def test_a_class_that_cannot_run_is_reported(
    bare_run: Run, module: Module, text: str, words: list[str]
) -> None:
    assert failed_with(bare_run("consumer", "run", f"{module(text)}:Billing"), 1, *words)


def test_an_unknown_queue_is_reported(run: Run, module: Module) -> None:
    name = module(BILLING.format(base="Consumer", kind=""))
    result = run("consumer", "run", f"{name}:Billing")
    assert result.exit_code == 1
    assert "orders" in result.stderr.splitlines()[-1]
    assert "pgqpy queue list" in result.stderr.splitlines()[-1]


TELLING = """
from pgqpy.consumers import Consumer

class Billing(Consumer):
    queue = "elsewhere"
    name = "billing"
    part_size = 7

    def __init__(self, dsn):
        super().__init__(dsn)
        self.max_retries = 5

    def process_event(self, event):
        print(self.queue, self.part_size, self.max_retries, self.on_error, flush=True)
        raise ValueError("bad\\nline")
"""
ISO_UTC = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"


def test_settings_metrics_and_log_of_the_command_line(
    module: Module, start: Start, client: pgqpy.Client
) -> None:
    place_order(client)
    settings = ("queue=orders", "part_size=100", "max_retries=0", "on_error=retry")
    options = [word for setting in settings for word in ("--set", setting)]
    place = f"{module(TELLING)}:Billing"
    process = start(place, *options, "--metrics-port", "0", "--log-format", "json")
    assert process.stdout is not None
    assert process.stderr is not None
    where = json.loads(process.stderr.readline())["event"].removeprefix("metrics at ")
    assert process.stdout.readline() == "orders 100 0 retry\n"
    labels = '{consumer="billing",queue="orders"}'
    wanted = {"batches": 1, "events": 1, "retries": 0, "dead_events": 1}
    lines = [f"pgq_consumer_{name}_total{labels} {n}.0" for name, n in wanted.items()]
    eventually(lambda: all(line in read(where) for line in lines))
    assert json.loads(read(where.replace("metrics", "healthz")))["consumer"] == "billing"
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    entries = [json.loads(line) for line in err.splitlines()]
    assert all(re.fullmatch(ISO_UTC, entry["timestamp"]) for entry in entries)
    (dead,) = (entry for entry in entries if entry["level"] == "error")
    assert "is dead" in dead["event"]
    assert dead["exception"].endswith("ValueError: bad\n    line")


def read(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


def test_the_log_has_the_tickers_times_and_the_level_that_was_asked_for(
    module: Module, start: Start, client: pgqpy.Client
) -> None:
    place_order(client)
    process = start(f"{module(TELLING)}:Billing", "--set", "queue=orders", "--log-level", "warning")
    assert process.stdout is not None
    process.stdout.readline()
    eventually(lambda: client.get_consumer_info("orders", "billing")[0].current_batch is None)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert re.match(ISO_UTC + r" \[warning", err)
    assert "runs" not in err


@pytest.mark.parametrize(
    ("setting", "code", "words"),
    [
        ("partsize=1", 2, ["no setting 'partsize'", "did you mean part_size"]),
        ("part_size", 2, ["--set part_size=100"]),
        ("colour=red", 2, ["no setting 'colour'", "part_size"]),
        ("part_size=many", 1, ["Billing.part_size", "from 1 to"]),
        ("on_error=7", 1, ["Billing.on_error", "'7'"]),
    ],
)
def test_a_wrong_setting_is_reported(
    bare_run: Run, module: Module, setting: str, code: int, words: list[str]
) -> None:
    place = f"{module(BILLING.format(base='Consumer', kind=''))}:Billing"
    assert failed_with(bare_run("consumer", "run", place, "--set", setting), code, *words)
