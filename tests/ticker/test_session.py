"""The daemon's sessions, as the server sees them, and a ticker inside an application."""

from __future__ import annotations

import gc
import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psutil
import structlog
from psycopg import sql

from pgqpy.ticker import Ticker
from pgqpy.ticker.loop import TICK_SETTINGS
from pgqpy.ticker.session import check_database, open_client
from pgqpy.ticker.settings import TickerSettings
from pgqpy.ticker.statements import Statements
from pgqpy.ticker.tick import TickState, tick
from tests.support.gates import shut_gate
from tests.support.hostile import lay_trap, trapped
from tests.support.waiting import eventually
from tests.ticker.harness import delivered
from tests.ticker.test_daemon import SESSIONS

if TYPE_CHECKING:
    from pgqpy.testing import EmbeddedServer


def test_the_server_notices_that_the_daemons_machine_is_gone(own_server: EmbeddedServer) -> None:
    query = """
        select setting::int from pg_settings
         where name in ('tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count',
                        'tcp_user_timeout') order by name
    """
    with open_client(own_server.tcp_dsn(), any_owner=True) as opened:
        assert opened.connection.execute(query).fetchall() == [(3,), (4,), (2,), (10_000,)]


def test_an_idle_queue_is_ticked_once_where_the_database_reads_null_in_arrays_as_text(
    dsn, client, connection
):
    database = sql.Identifier(connection.info.dbname)
    connection.execute(sql.SQL("alter database {} set array_nulls = off").format(database))
    client.create_queue("orders")
    with open_client(dsn, TICK_SETTINGS) as session:
        statements, state = Statements(session), TickState()
        polls = [tick(statements, state, now=0.0).ticks for _ in range(3)]
    assert [[queue for queue, _ in ticks] for ticks in polls] == [["orders"], [], []]


def test_statements_open_no_file_descriptor(dsn):
    """One would stay open until the garbage collector frees the session."""
    with open_client(dsn, TICK_SETTINGS) as session:
        gc.collect()  # may close those of earlier tests
        before = psutil.Process().num_fds()
        statements = Statements(session)
        assert statements.run("select pgq.version()")
        assert psutil.Process().num_fds() <= before


def test_other_threads_run_while_a_statement_waits(dsn, client, connection):
    settings = {**TICK_SETTINGS, "statement_timeout": "30s"}
    with (
        open_client(dsn, settings) as session,
        shut_gate(connection) as gate,
        ThreadPoolExecutor(1) as pool,
    ):
        check_database(session)
        statements = Statements(session)
        assert statements.run("select pgq.version()")
        waiting = pool.submit(statements.run, gate.wait_sql)
        gate.wait_for_arrival()  # not before the timeout, if this thread stood still
        gate.open()
        assert waiting.result()


def test_parameters_may_be_longer_than_what_a_socket_takes(dsn, client):
    with open_client(dsn, TICK_SETTINGS) as session:
        check_database(session)
        rows = Statements(session).run("select length($1::text)", 3_000_000 * b"x")
        assert rows == [[b"3000000"]]


def test_functions_of_a_hostile_search_path_are_not_called(dsn, client, connection):
    client.create_queue("orders")
    lay_trap(connection)
    ticker = Ticker(TickerSettings(dsns=(dsn,), http_port=0))
    client.insert_event("orders", "test", "data")
    with ExitStack() as stack:
        stack.callback(ticker.stop)
        ticker.start()
        eventually(lambda: client.get_queue_info("orders")[0].ev_new == 0)
    assert trapped(connection) == 0


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
