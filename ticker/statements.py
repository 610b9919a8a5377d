"""The SQL statements of the tick loop, and their fast execution by libpq."""

from __future__ import annotations

import selectors
import time
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import LockNotAvailable, error_from_result
from psycopg.pq import ConnStatus, ExecStatus

from pgqpy.client.waiting import Selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from pgqpy import Client

# Polls some queues, and ticks those that have changed, in one round trip.
# $1: the snapshot of the last poll. If the text is still the same, nothing was written anywhere,
#     and not even the sequences are read. A poll takes no transaction id, so it does not change
#     what the next poll sees.
# $2, $3, $4: the queues to poll: ids from $2 to $3, and ids in the array $4.
# $5, $6, $7: their last ticks: queue ids, event sequences, and writers open then.
# $8: ids of queues to poll without a tick; {NULL}: all of them.
# Returns the snapshot, and the queues whose sequence moved or whose last tick left writers open.
#
# A queue has changed if its sequence moved since its last tick, or if a writer that was open then
# has ended: the tick counted the ids of its events, so the sequence does not move again.
#
# writers: transactions that took event ids and are still open. nextval() locks the sequence before
# it counts, until the end of the transaction. So the query finds every producer from its first id
# on, even before it has a transaction id. (The transactions in a snapshot do not include these and
# the newest ones, and include those of all other databases.) The end of a transaction is visible
# before its locks are released.
#
# The order matters; each step computes from the one before, which fixes the order. First the
# sequences are read, then the open writers, then the ticks take snapshots of their own. A
# transaction that took an id before the first step, and is not open at the second, has ended: its
# events are in the tick.
#
# This is a statement and not an SQL function (PL/pgSQL, PostgreSQL 18): there a poll that finds
# nothing written took 61 us instead of 55 with 1 queue, and 81 us instead of 75 with 100 (10th
# percentile of 2,000 calls). An idle daemon repeats that poll. Polls after a write took about as
# long.
POLL = """
with polled as materialized (
    select coalesce(activity.queue_id, known.queue_id) as queue_id, activity.queue_name,
        activity.sequence, activity.event_seq,
        known.seq is distinct from activity.event_seq as moved,
        string_to_array(known.open, ' ') as open
    from (
        select * from pgq.ticker_activity($2, $3, $4) where pg_current_snapshot()::text <> $1
    ) as activity
    full join unnest($5::int[], $6::bigint[], $7::text[]) as known (queue_id, seq, open)
        on known.queue_id = activity.queue_id
    where pg_current_snapshot()::text <> $1
), suspects as materialized (
    select * from polled where moved or open is not null
), writers as materialized (
    select l.relation, array_agg(l.virtualtransaction) as open
    from pg_locks as l
    where (select count(*) from suspects) > 0
        and l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
        and l.database = (select oid from pg_database where datname = current_database())
        and l.pid is distinct from pg_backend_pid()
    group by l.relation
), judged as (
    select s.queue_id, s.queue_name, s.event_seq, array_to_string(w.open, ' ') as open,
        s.event_seq is not null and (s.moved or not s.open <@ coalesce(w.open, '{}')) as changed
    from suspects as s
    left join writers as w on w.relation = s.sequence
)
select pg_current_snapshot()::text, j.queue_id, j.queue_name, j.event_seq, j.open, j.changed,
    made.tick_id
from (select) as always
left join judged as j on true
left join lateral pgq.tick_queue(
    case when j.changed and j.queue_id <> all ($8::int[]) then j.queue_name end) as made on true
"""

# A text that changes with the queues whose ids are from $1 to $2, without those in $3.
PULSE = "select pgq.ticker_pulse($1, $2, $3)"
# The queues that the daemon ticks, of those with ids from $1 to $2 and in the array $3.
NAMES = """
select queue_id, queue_name from pgq.queue
where (queue_id between $1 and $2 or queue_id = any ($3))
    and not queue_external_ticker and not queue_ticker_paused
"""
# The queues with ids from $1 to $2 that are due by PGQ's own rules.
FIND_DUE = "select * from pgq.ticker_due($1, $2)"
# Ticks the queues in the JSON array $1 that are still due.
TICK_DUE = "select name, pgq.ticker(name) from json_array_elements_text($1) as name"
QUEUES = "select queue_id from pgq.queue order by queue_id"
TICK = "select tick_id from pgq.tick_queue($1)"
# Whether ticks of this session are announced: see insert_tick.
NOTIFY = "select set_config('pgq.notify', $1, false)"
QUIET = 10.0  # seconds without announcements

Row = list[Any]  # of bytes, or None


class CommitBlocked(LockNotAvailable):
    """COMMIT waited for a lock, in vain: the one that every COMMIT with a NOTIFY takes."""


class Statements:
    """Runs the loop's statements on one session; each is prepared at its first run.

    The statements go to libpq directly. A cursor of psycopg does more than twice the work, since it
    waits, adapts and loads in Python, and some hundred polls a second make up most of the daemon's
    CPU time. They wait without the interpreter's lock, so other threads run meanwhile.
    """

    def __init__(self, client: Client) -> None:
        """Use the session of a client, in autocommit mode, whose client_encoding is UTF8."""
        self.connection = connection = client.connection
        self._prepared: dict[str, bytes] = {}
        self._answers = Selector()
        self._answers.register(connection, selectors.EVENT_READ)
        self._quiet_until: float | None = None  # monotonic seconds; None: ticks are announced

    def run(self, query: str, *parameters: bytes) -> list[Row]:
        """Run a query and return its rows, every value as text in UTF-8, not decoded.

        A COMMIT with a NOTIFY waits for that of every other session of the server. One of them may
        wait for a synchronous standby, for hours. So ticks are not announced for a while, if that
        lock cannot be had.

        Raises psycopg.Error, as a cursor does.
        """
        if self._quiet_until is not None and time.monotonic() > self._quiet_until:
            self._quiet_until = None
            self._run(NOTIFY, b"on")
        try:
            return self._run(query, *parameters)
        except CommitBlocked:
            self._quiet_until = time.monotonic() + QUIET
            self._run(NOTIFY, b"off")
            return self._run(query, *parameters)

    def _run(self, query: str, *parameters: bytes) -> list[Row]:
        name = self._prepared.get(query) or self._prepare(query)
        result = self._execute(name, parameters)
        if result.status != ExecStatus.TUPLES_OK:
            raise error_from_result(result, "utf-8")
        value, columns = result.get_value, range(result.nfields)
        return [[value(row, column) for column in columns] for row in range(result.ntuples)]

    def _execute(self, name: bytes, parameters: Sequence[bytes]) -> PGresult:
        """Execute a statement; return its result.

        It uses a pipeline, because that tells an error of COMMIT from one of the statement.
        """
        pgconn = self.connection.pgconn
        pgconn.enter_pipeline_mode()
        pgconn.send_query_prepared(name, parameters)
        pgconn.pipeline_sync()
        self._flush(pgconn)
        # The statement's result and None, then the result of the sync. After a lost session there
        # are fewer.
        result, _, ended = (self._next_result(pgconn) for _ in range(3))
        failed = ended is not None and ended.status == ExecStatus.FATAL_ERROR
        if failed:  # COMMIT did: None and the result of the sync are still to come
            for _ in range(2):
                self._next_result(pgconn)
        if pgconn.status == ConnStatus.OK:
            pgconn.exit_pipeline_mode()
        if ended is not None and failed:
            error = error_from_result(ended, "utf-8")
            raise CommitBlocked(str(error)) if isinstance(error, LockNotAvailable) else error
        if result is None:
            raise psycopg.OperationalError(pgconn.get_error_message())
        return result

    def _flush(self, pgconn: PGconn) -> None:
        # Long parameters do not fit into the socket's buffer at once.
        if pgconn.flush():
            self._answers.modify(self.connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while pgconn.flush():
                self._answers.select()
                pgconn.consume_input()
            self._answers.modify(self.connection, selectors.EVENT_READ)

    def _next_result(self, pgconn: PGconn) -> PGresult | None:
        # get_result would wait for the server with the interpreter's lock, unlike exec_prepared.
        while pgconn.is_busy():
            self._answers.select()
            pgconn.consume_input()
        return pgconn.get_result()

    def _prepare(self, query: str) -> bytes:
        name = f"pgqpy_ticker_{len(self._prepared)}".encode()
        result: PGresult = self.connection.pgconn.prepare(name, query.encode())
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result, "utf-8")
        self._prepared[query] = name
        return name
