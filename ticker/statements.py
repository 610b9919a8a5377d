"""The SQL of the tick loop, and the leanest way to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

# One round trip looks at everything and ticks what is due.
# $1: the snapshot of the last look. If it is still the same text, nothing was written anywhere,
#     and not even the sequences are read. Looking takes no transaction id, so it does not change
#     what the next look sees.
# $2: what the loop knows: [{"queue": …, "seq": what its last tick counted, "open": writers}].
# $3: false only looks. Returns the snapshot and, in rows, the queues that moved or that wait.
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
    select coalesce(activity.queue_name, known.queue) as queue_name, activity.event_seq,
        known.seq is distinct from activity.event_seq as moved,
        string_to_array(known.open, ' ') as open
    from (
        select * from pgq.ticker_activity() where pg_current_snapshot()::text <> $1
    ) as activity
    full join json_to_recordset($2) as known (queue text, seq bigint, open text)
        on known.queue = activity.queue_name
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
    select s.queue_name, s.event_seq, array_to_string(w.open, ' ') as open,
        s.event_seq is not null and (s.moved or not s.open <@ coalesce(w.open, '{}')) as due
    from suspects as s
    left join pgq.queue as q on q.queue_name = s.queue_name
    left join writers as w on w.relation = to_regclass(q.queue_event_seq)
)
select pg_current_snapshot()::text, j.queue_name, j.event_seq, j.open, j.due, made.tick_id
from (select) as always
left join judged as j on true
left join lateral pgq.tick_queue(case when $3 and j.due then j.queue_name end) as made on true
"""

TICK = "select tick_id from pgq.tick_queue($1)"
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
