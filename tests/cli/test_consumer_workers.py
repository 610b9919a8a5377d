"""`pgqpy consumer run --workers N`: processes that are started, restarted and stopped."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pgqpy import calls
from pgqpy.cli import consumer_run
from pgqpy.cli.consumer_run import Supervisor
from tests.cli.support import Module, Run, Start, failed_with
from tests.cli.test_consumer_run import RUNNING
from tests.support.waiting import eventually, eventually_async

if TYPE_CHECKING:
    import pgqpy

BILLING = """
import os, signal
from pathlib import Path
from pgqpy.consumers import Consumer

class Billing(Consumer):
    queue = "orders"
    name = "billing"
    shared = True

    def process_event(self, event):
        with open("handled", "a") as file:
            file.write(f"{os.getpid()} {event.data}\\n")
        if event.data == "kill" and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""
EXITS = BILLING.replace("os.kill(os.getpid(), signal.SIGKILL)", "raise SystemExit(2)")
ALONE = BILLING.replace("shared = True", "")
READS = """
import subprocess
from pgqpy.consumers import Consumer

class Billing(Consumer):
    queue = "orders"
    name = "billing"

    def process_event(self, event):
        with open("handled", "a") as file:
            file.write(repr((input_or_end(), subprocess.check_output(["cat"]))) + "\\n")

def input_or_end():
    try:
        return input()
    except EOFError:
        return "end"
"""

StartSupervisor = Callable[..., tuple[Supervisor, asyncio.Task[int]]]


def pids(place: Path) -> list[int]:
    """The processes that noted themselves, in the order of their starts."""
    file = place / "pids"
    return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def lives(pid: int) -> bool:
    """Whether the process runs: it is no zombie either."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def supervisor(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> StartSupervisor:
    """Start a supervisor of shells that run a script, in the background."""
    caplog.set_level(logging.INFO, "pgqpy.consumers")

    def starter(script: str, number: int = 1) -> tuple[Supervisor, asyncio.Task[int]]:
        note = f'echo $$ >>"{tmp_path}/pids"'
        made = Supervisor([["sh", "-c", f"{script.replace('NOTE', note)}"]] * number)
        return made, asyncio.create_task(made.run())

    return starter


@pytest.mark.parametrize(
    "case",
    [
        (BILLING, "was ended by SIGKILL", signal.SIGTERM),
        (EXITS, "ended with exit code 2", signal.SIGHUP),
    ],
)
def test_another_worker_takes_over_from_one_that_ends_which_is_started_again(
    module: Module, start: Start, client: pgqpy.Client, tmp_path: Path, case: Any
) -> None:
    text, ended, number = case
    client.create_queue("orders")
    client.register_consumer("orders", "billing", shared=True)
    for data in ("kill", "one"):
        client.insert_event("orders", "placed", data)
    client.tick_queue("orders")
    dsn = client.connection.info.dsn
    process = start(module(text) + ":Billing", "--workers", "2", "--dsn", dsn)
    handled = tmp_path / "handled"
    eventually(lambda: handled.exists() and handled.read_text().count("\n") == 3)
    lines = [line.split() for line in handled.read_text().splitlines()]
    assert sorted(data for _, data in lines) == ["kill", "kill", "one"]
    victim, heir = (pid for pid, data in lines if data == "kill")
    assert victim != heir
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    eventually(lambda: len({*children.read_text().split()} - {victim}) == 2)
    pids = [int(pid) for pid in children.read_text().split()]
    # A process that was just forked has the command line of the supervisor, until it executes.
    eventually(lambda: not any(dsn in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids))
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    eventually(lambda: not any(map(lives, pids)))
    about = "consumer billing of queue orders: worker process"
    assert re.search(f"{about} {victim} {ended}: starting another one in 0.. s", err)
    stopping = rf"stopping [12] workers? \({number.name}\); a second signal kills them"
    assert re.search(stopping, err)  # the new one may have started just now


def test_workers_stop_when_their_supervisor_is_killed(
    module: Module, start: Start, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    process = start(module(ALONE) + ":Billing", "--workers", "1")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    (pid,) = map(int, eventually(lambda: children.read_text().split()))
    eventually(lambda: client.connection.execute(RUNNING).fetchone() == (1,))
    process.kill()
    eventually(lambda: not lives(pid))
    assert "the supervisor of the workers has died: stopping" in process.communicate()[1]


def test_handlers_and_programs_that_they_start_read_an_empty_input(
    module: Module, start: Start, orders: pgqpy.Client, tmp_path: Path
) -> None:
    orders.insert_event("orders", "placed", "one")
    orders.tick_queue("orders")
    start(module(READS) + ":Billing", "--workers", "1")
    handled = tmp_path / "handled"
    read = eventually(lambda: handled.exists() and handled.read_text())
    assert read == "('end', b'')\n"


async def test_a_second_signal_kills_workers_that_do_not_stop(
    supervisor: StartSupervisor,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer_run, "SAME", 3600.0)
    made, running = supervisor("trap '' TERM; NOTE; while read line; do :; done", 2)
    await eventually_async(lambda: caplog.text.count("started") == 2 == len(pids(tmp_path)))
    made.stop("SIGTERM")
    made.stop("SIGTERM")  # the same, sent to the process and to its group
    assert "killing" not in caplog.text
    monkeypatch.setattr(consumer_run, "SAME", 0.0)
    made.stop("SIGINT")
    assert await running == 1
    assert not any(map(lives, pids(tmp_path)))
    assert "killing 2 workers (SIGINT)" in caplog.text


async def test_a_worker_that_ends_is_started_later_and_later(
    supervisor: StartSupervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer_run, "RESTART_BASE", 0.002)
    made, running = supervisor("NOTE; exit 1")
    pauses: list[float] = []

    def eight() -> bool:
        pauses[:] = map(float, re.findall(r"exit code 1: .* in ([0-9.]+) s", caplog.text))
        return len(pauses) >= 8

    await eventually_async(eight)
    made.stop("SIGTERM")
    await running
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1 <= pauses[7]


async def test_the_pause_is_short_again_after_a_quiet_time(
    supervisor: StartSupervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer_run, "RESTART_BASE", 0.02)
    monkeypatch.setattr(consumer_run, "QUIET", 0.0)
    made, running = supervisor("NOTE; exit 1")
    await eventually_async(lambda: caplog.text.count("in 0.0 s") >= 8)
    made.stop("SIGTERM")
    await running
    assert "in 0.1 s" not in caplog.text


async def test_a_worker_that_refuses_its_arguments_ends_all(
    supervisor: StartSupervisor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = f'NOTE; mkdir "{tmp_path}/first" 2>&- && exit 2; exec sleep 60'
    _, running = supervisor(script, 2)
    assert await running == 2
    assert not any(map(lives, pids(tmp_path)))
    assert "ended with exit code 2: wrong usage" in caplog.text
    assert "starting another one" not in caplog.text


async def test_exit_code_2_of_a_worker_that_accepted_its_arguments_stops_no_other(
    supervisor: StartSupervisor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = f'NOTE; mkdir "{tmp_path}/first" 2>&- && printf + >&0 && exit 2; exec sleep 60'
    made, running = supervisor(script, 2)
    await eventually_async(lambda: len(pids(tmp_path)) == 3)
    assert "ended with exit code 2: starting another one" in caplog.text
    made.stop("SIGTERM")
    assert await running == 0


async def test_a_worker_that_fails_while_it_stops_is_told(
    supervisor: StartSupervisor, tmp_path: Path
) -> None:
    made, running = supervisor("trap 'exit 1' TERM; NOTE; while read line; do :; done")
    await eventually_async(lambda: pids(tmp_path))
    made.stop("SIGTERM")
    assert await running == 1


@pytest.mark.parametrize(
    ("text", "options", "code", "words"),
    [
        (BILLING, ["--workers", "0"], 2, ["0 is not in the range"]),
        (BILLING, ["--workers", "2", "--no-wait"], 2, ["--no-wait ends a process"]),
        (BILLING, ["--workers", "1000000"], 2, ["1000000 is not in the range"]),
        (ALONE, ["--workers", "2"], 1, ["2 workers need a shared consumer", "key, in Billing"]),
        (BILLING, ["--workers", "2", "--metrics-port", "65535"], 2, ["need ports up to 65536"]),
        (BILLING, ["--workers", "2"], 1, ["no queue", "orders", "pgqpy queue list"]),
    ],
)
def test_what_cannot_run_is_reported_once(
    run: Run, module: Module, text: str, options: list[str], code: int, words: list[str]
) -> None:
    assert failed_with(run("consumer", "run", f"{module(text)}:Billing", *options), code, *words)


@pytest.mark.parametrize(
    ("text", "mode", "number", "words"),
    [
        (BILLING, None, "1000", ["1000 workers need", "max_connections = ", "start fewer"]),
        (
            BILLING,
            "plain",
            "2",
            ["billing is not shared", "consumer set orders billing mode=shared"],
        ),
        (
            ALONE,
            "shared",
            "1",
            ["is shared, and Billing is plain", "billing mode=plain changes"],
        ),
    ],
)
def test_what_every_worker_would_fail_for_is_reported_once(
    run: Run,
    module: Module,
    orders: pgqpy.Client,
    text: str,
    mode: Literal["plain", "shared"] | None,
    number: str,
    words: list[str],
) -> None:
    if mode is None:
        orders.unregister_consumer("orders", "billing")
    elif mode == "shared":
        orders.call(calls.sharing.set_consumer_mode("orders", "billing", mode))
    refused = run("consumer", "run", f"{module(text)}:Billing", "--workers", number)
    assert failed_with(refused, 1, *words)
