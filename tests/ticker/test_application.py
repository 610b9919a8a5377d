"""A ticker inside an application: its sessions, and what it does with signals."""

from __future__ import annotations

import logging
import signal
import threading

import structlog

from pgqpy.ticker import Ticker
from pgqpy.ticker.settings import TickerSettings
from tests.support.waiting import eventually
from tests.ticker.harness import delivered
from tests.ticker.test_daemon import SESSIONS


def test_ticker_in_an_application_stops_twice_and_leaves_no_session_behind(dsn, connection):
    ticker = Ticker(TickerSettings(dsns=(dsn,), retry_period=0.1))
    ticker.start()
    eventually(lambda: ticker.health()[0] == 200)
    eventually(lambda: connection.execute(SESSIONS).fetchone() >= (2,))
    ticker.stop()
    ticker.stop()
    eventually(lambda: connection.execute(SESSIONS).fetchone() == (0,))
    never_started = Ticker(TickerSettings(dsns=(dsn,), http_port=0))
    never_started.stop()
    never_started.stop()


def test_ticker_in_an_application_gives_its_signal_handlers_back(dsn):
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    ticker = Ticker(TickerSettings(dsns=(dsn,)))
    meanwhile: list[object] = []

    def stop():
        eventually(lambda: ticker.health()[0] == 200)
        meanwhile.extend(signal.getsignal(number) for number in numbers)
        ticker.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    assert ticker.run() == 0
    stopping.join()
    assert [signal.getsignal(number) for number in numbers] == before
    assert not set(before) & set(meanwhile)


def test_a_signal_that_another_thread_gets_stops_it(dsn):
    # The kernel may choose any thread; a wait in the main one is not interrupted then.
    ticker = Ticker(TickerSettings(dsns=(dsn,)))

    def kill():
        eventually(lambda: ticker.health()[0] == 200)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    killing = threading.Thread(target=kill)
    killing.start()
    assert ticker.run() == 0
    killing.join()


def test_a_log_that_raises_stops_neither_ticks_nor_moves(dsn, client, connection, queue):
    def fail(_logger, _method, entry):
        raise RuntimeError(entry["event"])

    log = structlog.wrap_logger(
        structlog.testing.CapturingLogger(),
        processors=[fail],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    ticker = Ticker(TickerSettings(dsns=(dsn,)), log=log)
    ticker.start()
    try:
        for delay in (None, 0.01):  # the second time in sessions that follow lost ones
            client.insert_event("orders", "t", f"delay {delay}", delay=delay)
            eventually(lambda: f"delay {delay}" in delivered(client))  # noqa: B023  # called at once
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'pgqpy ticker'"
            )
    finally:
        ticker.stop()
