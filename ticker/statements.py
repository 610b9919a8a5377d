"""The SQL of the tick loop, and the leanest way to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

# One round trip looks at some queues and ticks what is due of them.
# $1: the snapshot of the last look. If it is still the same text, nothing was written anywhere,
#     and not even the sequences are read. Looking takes no transaction id, so it does not change
#     what the next look sees.
# $2, $3, $4: which queues: those with ids from $2 to $3, and those in the array $4.
# $5, $6, $7: what the loop knows of them: ids, what the last ticks counted, writers open then.
# $8: ids of queues that are not ticked, only looked at; {NULL}: all of them.
# Returns the snapshot and, in rows, the queues that moved or that wait.
#
# A queue is due if its sequence moved since its last tick, or if a writer has ended that was still
# open then: its events have ids that the tick counted, so the sequence does not move again.
#
# writers: who took event ids and is still open. nextval() locks the sequence, before it counts,
# until the end of the transaction. So this finds every producer from its first id on, even before
# it has a transaction id. (A snapshot's list of open transactions misses those, and the newest
# ones, and names all of the cluster's others.) Its end is visible before its locks are gone.
#
# The order matters, and what is computed from what fixes it: first the sequences, then who is
# open, then the ticks, whose functions take snapshots of their own. Who took an id before the
# first and is not open at the second has ended, and its events are in the tick.
TURN = """
with looked as materialized (
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
    select * from looked where moved or open is not null
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
        s.event_seq is not null and (s.moved or not s.open <@ coalesce(w.open, '{}')) as due
    from suspects as s
    left join writers as w on w.relation = s.sequence
)
select pg_current_snapshot()::text, j.queue_id, j.queue_name, j.event_seq, j.open, j.due,
    made.tick_id
from (select) as always
left join judged as j on true
left join lateral pgq.tick_queue(
    case when j.due and j.queue_id <> all ($8::int[]) then j.queue_name end) as made on true
"""

# Changes if anything has in the queues with ids from $1 to $2, except those in $3.
PULSE = "select pgq.ticker_pulse($1, $2, $3)"
# The queues that are ticked here, of those with ids from $1 to $2 and those in $3.
NAMES = """
select queue_id, queue_name from pgq.queue
where (queue_id between $1 and $2 or queue_id = any ($3))
    and not queue_external_ticker and not queue_ticker_paused
"""
# The queues that PGQ's own rule wants ticked, of those with ids from $1 to $2.
DUE = "select * from pgq.ticker_due($1, $2)"
# Ticks the queues in the JSON array $1, if they are still due.
TICK_DUE = """
select name, pgq.ticker(name) from json_array_elements_text($1) as name
"""
QUEUES = "select queue_id from pgq.queue order by queue_id"
TICK = "select tick_id from pgq.tick_queue($1)"
# Held by every daemon, so that it can be seen which of them stand by.
ATTEND = "select pg_try_advisory_lock_shared(7366513, 3)"
LEAD = "select pg_try_advisory_lock(7366513, 0)"
RECOVERY = "select pg_is_in_recovery()"

Row = list[Any]  # of bytes, or None


class Statements:
    """The loop's statements on one session, prepared when first run.

    They go to libpq directly. A cursor does more than twice the work (it waits, adapts and loads
    in Python), and at some hundred looks a second that is what the daemon's CPU time is made of.
    libpq waits without the interpreter's lock, so other threads run meanwhile.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        """Ride on an autocommit connection whose client_encoding is UTF8."""
        self.connection = connection
        self._prepared: dict[str, bytes] = {}

    def run(self, query: str, *parameters: bytes) -> list[Row]:
        """Run a query and return its rows, all as text that is not decoded yet.

        Raises psycopg.Error, as a cursor would.
        """
        name = self._prepared.get(query) or self._prepare(query)
        result = self.connection.pgconn.exec_prepared(name, parameters)
        if result.status != ExecStatus.TUPLES_OK:
            raise error_from_result(result, "utf-8")
        value, columns = result.get_value, range(result.nfields)
        return [[value(row, column) for column in columns] for row in range(result.ntuples)]

    def _prepare(self, query: str) -> bytes:
        name = f"pgqpy_ticker_{len(self._prepared)}".encode()
        result: PGresult = self.connection.pgconn.prepare(name, query.encode())
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result, "utf-8")
        self._prepared[query] = name
        return name
