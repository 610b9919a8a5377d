"""The daemon's sessions, as the server sees them."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psutil
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
