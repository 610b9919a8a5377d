"""Sessions whose lock on a table of the engine, or a system catalogue, holds up all others.

A request for a strong lock waits for every session that uses the table, and all later sessions wait
behind the request: a blockage. `create rule` and `create trigger` ask for such a lock before
PostgreSQL checks their right, so any login that may look into the schema can stop all queues. Any
login at all can do so with a catalogue: pg_inherits stops what reads or truncates event tables.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.errors import LockNotAvailable
from psycopg.rows import tuple_row

from pgqpy.cluster_names import read_any_name
from pgqpy.errors import PgqError
from pgqpy.locks import Holder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection
    from typing_extensions import LiteralString

MAX_NAMES = 3  # of tables, in a sentence
LOOK_ELSEWHERE = (
    "look from another database of the server at pg_locks for a session that holds or awaits "
    "AccessExclusiveLock on a system catalogue (relation below 16384) of the database that does "
    "not answer: pg_terminate_backend ends it"
)

_TABLES: LiteralString = """
    select l.relation, concat(n.nspname, '.', c.relname) as name, l.mode, l.granted,
        coalesce(l.pid, 0) as pid, l.waitstart
    from own, pg_lock_status() l join pg_class c on c.oid = l.relation
        join pg_namespace n on n.oid = c.relnamespace
    where l.locktype = 'relation' and n.nspname in ('pgq', 'pgq_coop') and l.database = own.datid
        and l.pid is distinct from own.pid
"""
# Oids below 16384 are PostgreSQL's. pg_class may be the locked one. So its name and those of its
# indexes are written here, and the query calls the functions behind pg_locks and pg_stat_activity.
# A session whose catalogue cache is empty, or was reset by changes of other sessions, still reads
# pg_class to plan the query, and is refused: see LOOK_ELSEWHERE.
# No statement of ours reads large objects or pg_subscription, which DDL locks by itself.
_CATALOGUES: LiteralString = """
    select l.relation, case when l.relation in (1259, 2662, 2663, 3455) then 'pg_catalog.pg_class'
            else regexp_replace(l.relation::regclass::text, '^([^.]+)$', 'pg_catalog.\\1')
            end as name,
        l.mode, l.granted, coalesce(l.pid, 0) as pid, l.waitstart
    from own, pg_lock_status() l
    where l.locktype = 'relation' and l.relation < 16384
        and l.relation not in (2613, 2995, 6100) and l.database in (0, own.datid)
        and l.pid is distinct from own.pid
"""


def _blockages(locked: LiteralString) -> LiteralString:
    """Return the query for what blocks these tables.

    One row for each session at the head of a table's lock queue, with one session at the root of
    what it waits for (itself, if it does not wait). A prepared transaction has 0 as its pid.
    Parameter: whether a lock counts for which nobody has waited for two seconds.
    """
    return f"""
    with recursive own as materialized (
        select pid, datid from pg_stat_get_activity(pg_backend_pid())),
    locked as materialized ({locked}),
    first as (
        select distinct on (relation) *
        from locked l
        where mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
            and (%s or exists (
                select from locked w where w.relation = l.relation and not w.granted
                    and w.waitstart < clock_timestamp() - interval '2 s'))
        order by relation, granted desc, waitstart),
    head as (
        select pid, mode, granted, array_agg(name order by name) as names,
            bool_or(relation in (select relation from locked where not granted)) as waited_for
        from first group by pid, mode, granted
        order by waited_for desc, pid limit 3),
    chain (head, pid) as (
        select pid, pid from head
        union
        select c.head, b.pid from chain c cross join unnest(pg_blocking_pids(c.pid)) as b (pid)),
    root as (
        select c.head, c.pid, count(*) over (partition by c.head) - 1 as more,
            row_number() over (partition by c.head order by a.xact_start, c.pid) as number
        from chain c left join pg_stat_get_activity(null) a on a.pid = c.pid
        where cardinality(pg_blocking_pids(c.pid)) = 0),
    session (pid, role, application, address, prepared) as (
        select pid, pg_get_userbyid(usesysid)::text, application_name, host(client_addr), null
        from pg_stat_get_activity(null)
        union all
        (select 0, pg_get_userbyid(p.ownerid)::text, null, null, p.gid
         from own join pg_prepared_xact() p on p.dbid = own.datid
            left join pg_lock_status() l on l.transactionid = p.transaction
            left join pg_lock_status() r on r.virtualtransaction = l.virtualtransaction
                and r.pid is null and r.relation in (select relation from locked)
         order by r.relation is null, p.prepared limit 1))
    select h.names, h.mode, h.granted, r.more,
        s.pid, s.role, s.application, s.address, null::timestamptz, s.prepared,
        t.pid, t.role, t.application, t.address, null::timestamptz, t.prepared
    from head h join root r on r.head = h.pid and r.number = 1
        join session s on s.pid = h.pid join session t on t.pid = r.pid
    order by h.waited_for desc, h.pid
    """  # noqa: S608  # our own query within our own


BLOCKAGES = _blockages(_TABLES)
CATALOGUE_BLOCKAGES = _blockages(_CATALOGUES)


class Blockage(NamedTuple):
    """Tables, the session that all others wait behind, and the one that has to end first."""

    names: list[str]
    mode: str
    granted: bool  # False: the head waits for its lock
    head: Holder
    root: Holder
    more: int  # sessions that have to end too

    def __str__(self) -> str:
        """Describe who waits for what."""
        some, rest = self.names[:MAX_NAMES], len(self.names) - MAX_NAMES
        names = ", ".join(some) + (f" and {rest} more" if rest > 0 else "")
        does = "holds" if self.granted else "asks for"
        what = f"all wait for {names}: {self.head} {does} {self.mode}"
        if self.head == self.root:
            return what
        more = f" and {self.more} more" if self.more else ""
        return f"{what} and waits for {self.root}{more}"

    @property
    def how_to_end(self) -> str:
        """The SQL statements of which each releases the others."""
        ends = dict.fromkeys((self.root.how_to_end, self.head.how_to_end))
        return " or ".join(ends)


class TableLocked(PgqError):
    """Another session locks a table of the engine or a catalogue. The message says what ends it."""

    sqlstate = LockNotAvailable.sqlstate


def find_blockages(connection: Connection[Any], *, refused: bool) -> list[Blockage]:
    """Return what holds up the sessions that use catalogues or the engine's tables.

    `refused`: a statement was just refused for a lock. Else only waits of two seconds count.
    """
    with read_any_name(connection.cursor(row_factory=tuple_row)) as cursor:
        rows = cursor.execute(CATALOGUE_BLOCKAGES, [refused]).fetchall()
        if not rows:  # else this query may wait for a catalogue
            rows = cursor.execute(BLOCKAGES, [refused]).fetchall()
    return [
        Blockage(names, mode, granted, _holder(fields[:6]), _holder(fields[6:]), more)
        for names, mode, granted, more, *fields in rows
    ]


def _holder(fields: list[Any]) -> Holder:
    pid, *others = fields
    return Holder(pid or None, *others)


def table_locked(connection: Connection[Any]) -> TableLocked | None:
    """Return an error that names the sessions, after a statement was refused for a lock."""
    try:
        found = find_blockages(connection, refused=True)
    except LockNotAvailable:
        return TableLocked(f"all wait for a system catalogue: {LOOK_ELSEWHERE}")
    except psycopg.Error:
        return None
    return TableLocked(f"{found[0]}: {found[0].how_to_end}") if found else None


@contextmanager
def named_locks(connection: Connection[Any]) -> Iterator[None]:
    """Raise TableLocked in place of a LockNotAvailable in the block, if a table is locked."""
    try:
        yield
    except LockNotAvailable:
        if error := table_locked(connection):
            raise error from None
        raise
