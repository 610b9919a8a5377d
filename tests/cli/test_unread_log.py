"""`pgqpy consumer run` whose log nobody reads: it delivers, and signals end it and its workers."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.support import Module, Start
from tests.cli.test_consumer_workers import BILLING, lives
from tests.support.unread import fill_stderr
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import subprocess

    import pgqpy

FAILING = """
import sys
from pathlib import Path
from pgqpy.consumers import Consumer

class Billing(Consumer):
    queue = "orders"
    name = "billing"
    max_retries = 0

    def process_event(self, event):
        Path("seen").open("a").write(event.data + "\\n")
        if event.data == "first":
            sys.stdin.readline()
        raise ValueError(event.data)
"""


NOISY = """
import logging, sys, threading, warnings
from pathlib import Path
from pgqpy.consumers import Consumer

def fails():
    raise ValueError("of a thread")

class Billing(Consumer):
    queue = "orders"
    name = "billing"

    def process_event(self, event):
        Path("seen").open("a").write(event.data + "\\n")
        if event.data == "first":
            sys.stdin.readline()
        warnings.warn(event.data)
        logging.getLogger("billing").warning("%d", event.data)
        print(event.data, file=sys.stderr)
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
        if event.data == "third":
            raise KeyboardInterrupt
"""


def place(client: pgqpy.Client, *orders: str) -> None:
    """Make the queue and the consumer, with these events in a batch."""
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    for data in orders:
        client.insert_event("orders", "placed", data)
    client.tick_queue("orders")


def go_on_unread(process: subprocess.Popen[str], seen: Path) -> None:
    """Let the handler go on with its first event, when standard error is full."""
    eventually(lambda: seen.exists() and seen.read_text() == "first\n")
    fill_stderr(process.pid)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_consumer_whose_log_nobody_reads_delivers_and_stops(
    module: Module, start: Start, client: pgqpy.Client, tmp_path: Path
) -> None:
    place(client, "first", "second", "third")
    process = start(module(FAILING) + ":Billing")
    go_on_unread(process, tmp_path / "seen")
    eventually(lambda: len(client.get_dead_events("orders", "billing")) == 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def test_consumer_whose_log_nobody_reads_ends_with_the_error_of_its_handler(
    module: Module, start: Start, client: pgqpy.Client, tmp_path: Path
) -> None:
    place(client, "first")
    process = start(module(FAILING) + ":Billing", "--set", "on_error=stop")
    go_on_unread(process, tmp_path / "seen")
    assert process.wait(30) == 1


def test_consumer_whose_standard_error_nobody_reads_writes_to_it_and_goes_on(
    module: Module, start: Start, client: pgqpy.Client, tmp_path: Path
) -> None:
    place(client, "first", "second", "third")
    process = start(module(NOISY) + ":Billing")
    go_on_unread(process, tmp_path / "seen")
    assert process.wait(30) == 130
    assert (tmp_path / "seen").read_text() == "first\nsecond\nthird\n"


def test_signals_end_workers_whose_log_nobody_reads(
    module: Module, start: Start, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    process = start(module(BILLING) + ":Billing", "--workers", "2")
    fill_stderr(process.pid)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    pids = eventually(lambda: [int(pid) for pid in children.read_text().split()])

    def ends() -> bool:
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    eventually(ends)
    # The last signal may come when the supervisor has let go of its signals.
    assert process.returncode in (0, 1, -signal.SIGTERM)
    assert not any(map(lives, pids))
