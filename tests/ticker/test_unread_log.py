"""Tickers whose log nobody reads, or whose log raises: they tick and move events."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextlib import redirect_stderr
from threading import Thread

import pytest
import structlog

from pgqpy import log_stream
from pgqpy.ticker import Ticker
from pgqpy.ticker.settings import TickerSettings
from tests.support.unread import fill, fill_stderr
from tests.support.waiting import eventually
from tests.ticker.test_mover import delivered

WITH_A_THREAD = """
import sys, threading
from pgqpy.cli.app import main

def fails():
    sys.stdin.readline()
    raise ValueError

threading.Thread(target=fails).start()
main(["ticker", "run"])
"""
OTHER_SESSIONS = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and application_name = 'pgqpy ticker'
"""


def assert_ticks_and_moves(client):
    client.insert_event("orders", "t", "now")
    eventually(lambda: "now" in delivered(client))
    client.insert_event("orders", "t", "later", delay=0.01)
    eventually(lambda: "later" in delivered(client))


def assert_goes_on(client, connection):
    """Expect ticks and moves, also after all sessions of the ticker were ended."""
    assert_ticks_and_moves(client)
    connection.execute(OTHER_SESSIONS)
    assert_ticks_and_moves(client)


def broken_log():
    """Make a log that raises at each entry."""

    def fail(_logger, _method, entry):
        raise RuntimeError(entry["event"])

    return structlog.wrap_logger(
        structlog.testing.CapturingLogger(),
        processors=[fail],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


@pytest.fixture
def full_stderr():
    reader, writer = os.pipe()
    fill(writer)
    with os.fdopen(writer, "w") as stderr:
        yield stderr
    os.close(reader)


def test_ticker_whose_log_nobody_reads_ticks_and_stops(
    dsn, client, connection, queue, full_stderr, monkeypatch
):
    monkeypatch.setattr(log_stream, "PATIENCE", 0.0)
    with redirect_stderr(full_stderr):
        ticker = Ticker(TickerSettings(dsns=(dsn,)))
    starting = Thread(target=ticker.start, daemon=True)
    starting.start()
    try:
        assert_goes_on(client, connection)
    finally:
        ticker.stop()
    assert not ticker.hangs


def test_ticker_whose_log_raises_ticks_and_moves(dsn, client, connection, queue):
    ticker = Ticker(TickerSettings(dsns=(dsn,)), log=broken_log())
    ticker.start()
    try:
        assert_goes_on(client, connection)
    finally:
        ticker.stop()


def test_ticker_whose_standard_error_nobody_reads_outlives_the_traceback_of_a_thread(
    dsn, client, queue
):
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_A_THREAD],
        env={**os.environ, "PGQPY_DSN": dsn},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert_ticks_and_moves(client)
        fill_stderr(process.pid)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert_ticks_and_moves(client)
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
