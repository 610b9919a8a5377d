"""A supervisor whose log nobody reads: signals still end it and its workers."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgqpy.cli.log_thread import LogThread
from tests.cli.support import Module, Start
from tests.cli.test_consumer_workers import BILLING, lives
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import pgqpy


def fill_stderr(process: subprocess.Popen[str]) -> None:
    """Leave no room in the pipe that is the standard error of a process."""
    pipe = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(pipe, b"." * 4096):
            pass
    os.close(pipe)


def test_signals_end_workers_whose_log_nobody_reads(
    module: Module, start: Start, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    process = start(module(BILLING) + ":Billing", "--workers", "2")
    fill_stderr(process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    pids = eventually(lambda: [int(pid) for pid in children.read_text().split()])

    def ends() -> bool:
        process.send_signal(signal.SIGTERM)
        return process.poll() is not None

    eventually(ends)
    # The last signal may come when the supervisor has let go of its signals.
    assert process.returncode in (0, 1, -signal.SIGTERM)
    assert not any(map(lives, pids))


def test_lines_are_written_in_order_and_with_their_tracebacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = list(logging.getLogger().handlers)
    log = LogThread()
    log.start()
    logger = logging.getLogger("pgqpy.consumers")
    for number in range(100):
        logger.warning("line %d", number)
    try:
        int("no number")
    except ValueError:
        logger.exception("it failed")
    assert log.stop()
    assert [record.getMessage() for record in caplog.records[:100]] == [
        f"line {number}" for number in range(100)
    ]
    assert "ValueError: invalid literal" in caplog.text
    assert logging.getLogger().handlers == handlers
