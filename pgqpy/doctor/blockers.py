"""Checks of what holds others up: locks, transactions, standbys, replication slots."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.rows import tuple_row

from pgqpy import locks
from pgqpy.doctor.finding import Finding, Level, Row, is_ahead, quoted_role
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection
    from typing_extensions import LiteralString

WARN_PART = 10  # a tenth of the limit is a warning
MAX_NAMES = 3  # of tables, in a sentence
BRIEF = timedelta(seconds=1)  # a tick takes less: such a transaction is not named
SLOT_XIDS = 1_000_000  # transaction ids behind, from which a slot counts as forgotten


# Tables of the engine with a strong lock, granted or asked for: later sessions wait behind both.
# `create rule` and `create trigger` ask for one before PostgreSQL checks their right. One row for
# each session at the head of a table's lock queue, with one session at the root of what it waits
# for (itself, if it does not wait). A prepared transaction has 0 as its pid.
# Parameter: whether a lock counts for which nobody has waited for two seconds.
BLOCKAGES: LiteralString = """
    with recursive own as materialized (
        select pid, datid from pg_stat_get_activity(pg_backend_pid())),
    locked as materialized (
        select l.relation, concat(n.nspname, '.', c.relname) as name, l.mode, l.granted,
            coalesce(l.pid, 0) as pid, l.waitstart
        from own, pg_lock_status() l join pg_class c on c.oid = l.relation
            join pg_namespace n on n.oid = c.relnamespace
        where l.locktype = 'relation' and n.nspname in ('pgq', 'pgq_coop')
            and l.database = own.datid and l.pid is distinct from own.pid),
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
"""


class Blockage(NamedTuple):
    """Tables, the session that all others wait behind, and the one that has to end first."""

    names: list[str]
    mode: str
    granted: bool  # False: the head waits for its lock
    head: locks.LockOwner
    root: locks.LockOwner
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


def find_blockages(connection: Connection[Any], *, refused: bool) -> list[Blockage]:
    """Return what holds up the sessions that use the engine's tables.

    `refused`: a statement was just refused for a lock. Else only waits of two seconds count.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(BLOCKAGES, [refused]).fetchall()
    return [
        Blockage(names, mode, granted, _holder(fields[:6]), _holder(fields[6:]), more)
        for names, mode, granted, more, *fields in rows
    ]


def _holder(fields: list[Any]) -> locks.LockOwner:
    pid, *others = fields
    return locks.LockOwner(pid or None, *others)


def judge_blockages(blockages: list[Blockage], refused: str | None) -> Iterator[Finding]:
    """Report tables that all wait for; `refused` is the error of the check that met a lock."""
    for each in blockages:
        yield Finding("fail", "lock", str(each), each.how_to_end)
    if refused and not blockages:
        what = f"a check was refused: {refused}, and no table is locked any more"
        yield Finding("fail", "lock", what, "run it again")
    elif refused:
        yield Finding("skipped", "lock", f"not every check could run: {refused}")


HELD: LiteralString = f"""
    select h.*, q.queue_name, s.consumer, s.queue as consumer_queue
    from ({locks.BLOCKERS}) h
    left join pgq.queue q on h.class = {locks.QUEUE} and q.queue_id = h.object
    left join (
        select s.sub_id, c.co_name as consumer, sq.queue_name as queue
        from pgq.subscription s join pgq.consumer c on c.co_id = s.sub_consumer
            join pgq.queue sq on sq.queue_id = s.sub_queue) s
        on h.class = {locks.CONSUMER} and s.sub_id = h.object
    order by h.class, h.object, h.pid
"""  # noqa: S608  # our own query within our own


OF_TICKERS: dict[tuple[int, int | None], tuple[Level, str]] = {  # held by one that may not tick
    (locks.ENGINE, locks.TICKING): (
        "fail",
        "every ticker stands by for a holder that may not tick",
    ),
    (locks.ENGINE, locks.MOVING): ("fail", "no delayed event comes when it is due"),
    (locks.ENGINE, locks.WATCHING): ("warn", "ticker status shows a wrong number of standbys"),
    (locks.ENGINE, locks.SANDBOX): ("warn", "demo and simulate are refused in this database"),
    (locks.SEQUENCE, None): ("warn", "a sequence of a queue may wait to be moved far"),
}
OF_ALL: dict[tuple[int, int | None], tuple[Level, str]] = {
    (locks.ENGINE, locks.CHANGING): (
        "warn",
        "queues cannot be created, changed or dropped meanwhile",
    ),
    (locks.ENGINE, locks.INSTALLING): (
        "warn",
        "the schema cannot be installed or upgraded meanwhile",
    ),
    (locks.SKIPS, None): (
        "warn",
        "no event of a queue can be cancelled for all, and no consumer registered",
    ),
}


def judge_held(rows: list[Row]) -> Iterator[Finding]:
    """Report sessions that block tickers, consumers, queues or installations."""
    for row in rows:
        holder = locks.LockOwner(**{name: row[name] for name in locks.LockOwner._fields})
        blocked = _blocked(row, holder)
        if blocked:
            level, what = blocked
            how = holder.blocks(f"advisory lock ({row['class']}, {row['object']})")
            yield Finding(level, "lock", f"{what}: {how}", holder.how_to_end)


def _blocked(row: Row, holder: locks.LockOwner) -> tuple[Level, str] | None:
    """Return the level and what the session blocks; None if it may hold the lock."""
    may_not_tick = holder.pid is None or holder.may_tick is False  # no pid: a prepared transaction
    may_not_consume = holder.pid is None or holder.may_consume is False
    kind = row["class"]
    lock = (kind, None if kind in {locks.SEQUENCE, locks.SKIPS} else row["object"])
    if lock in OF_TICKERS and may_not_tick:
        return OF_TICKERS[lock]
    if row["consumer"]:
        return _consumer_blocked(row, holder, may_not_consume=may_not_consume)
    if row["queue_name"] and row["exclusive"]:
        return "fail", f"queue {row['queue_name']} is not ticked unless it is being dropped"
    if row["queue_name"] and may_not_tick:
        return "warn", f"queue {row['queue_name']} can be neither dropped nor repaired"
    return OF_ALL.get(lock)


def _consumer_blocked(
    row: Row, holder: locks.LockOwner, *, may_not_consume: bool
) -> tuple[Level, str] | None:
    consumer = f"consumer {row['consumer']} of {row['consumer_queue']}"
    if not holder.granted:  # consumers try, and never wait
        return "fail", f"no process of {consumer} starts"
    return ("fail", f"{consumer} cannot run") if may_not_consume else None


# A transaction with an id is in the snapshots of every database, another only in those of its own.
# A transaction that has only read, and runs no statement, is in no snapshot. But it keeps a lock on
# the tables that it has read, and rotation cannot truncate them.
# There is always a row, which says what this role may see; who is null if no transaction is open.
TRANSACTIONS = """
    select sight.*, open.*
    from (select current_user::text as role, pg_has_role('pg_read_all_stats', 'usage') as sees_all)
        as sight
    left join (
        select 'pid ' || a.pid as who, a.usename::text as "user",
            a.application_name as application, coalesce(a.state, '') as state,
            now() - a.xact_start as age, not holds.xmin as has_read_only
        from pg_stat_activity a
        cross join lateral (
            select a.backend_xid is not null
                or (a.backend_xmin is not null and a.datname = current_database()) as xmin) holds
        where a.xact_start is not null and a.pid <> pg_backend_pid()
            and a.backend_type <> 'autovacuum worker'
            and (holds.xmin or a.pid in (
                select l.pid from pg_locks l join pg_class c on c.oid = l.relation
                 where c.relnamespace = to_regnamespace('pgq') and l.database = (
                    select oid from pg_database where datname = current_database())))
        union all
        select 'prepared transaction ' || p.gid, p.owner::text, p.database::text, 'prepared',
            now() - p.prepared, false
        from pg_prepared_xacts p
    ) as open on true
    order by open.age desc nulls last
"""


def judge_transactions(rows: list[Row], limit: timedelta) -> Iterator[Finding]:
    """Report transactions older than `limit`, and as a warning those older than a tenth of it."""
    open_ = [row for row in rows if row["who"] is not None]
    old = [row for row in open_ if row["age"] > limit / WARN_PART or is_ahead(row["age"])]
    for row in old:
        level: Level = "fail" if row["age"] > limit else "warn"
        stops = row["has_read_only"]
        holds = "stops rotation: it has read tables of pgq" if stops else "holds xmin back"
        yield Finding(level, "transaction", f"{_described(row)} {holds}", _remedy(row))
    if not old:
        long = open_ and open_[0]["age"] >= BRIEF
        oldest = f"the oldest: {_described(open_[0])}" if long else "none is older than 1 s"
        yield _none_old(rows[0], oldest)


def _none_old(sight: Row, oldest: str) -> Finding:
    if sight["sees_all"]:
        return Finding("ok", "transaction", f"no long transaction; {oldest}")
    role = sight["role"]
    what = f"no long transaction among role {role}'s own ({oldest}); it cannot see those of others"
    remedy = f"grant pg_read_all_stats to {quoted_role(role)} lets it see them"
    return Finding("skipped", "transaction", what, remedy)


def _described(row: Row) -> str:
    where = f", {row['application']}" if row["application"] else ""
    age = row["age"]
    old = "begun while the clock was ahead" if is_ahead(age) else f"{duration(age)} old"
    return f"{row['who']} (user {row['user']}{where}, {row['state']}), {old}"


def _remedy(row: Row) -> str:
    kind, _, name = row["who"].rpartition(" ")
    if kind == "pid":
        return f"end it, or: select pg_terminate_backend({name})"
    return "commit prepared or rollback prepared, in its database, as its owner"


SLOTS = """
    select slot_name::text, active, age(xmin) as xids
    from pg_replication_slots where xmin is not null order by 1
"""


def judge_slots(rows: list[Row]) -> Iterator[Finding]:
    """Report replication slots that are unused or far behind."""
    for row in rows:
        if row["xids"] > SLOT_XIDS or not row["active"]:
            state = "used" if row["active"] else "unused"
            what = (
                f"replication slot {row['slot_name']} ({state}) holds xmin back, "
                f"{row['xids']} transactions ago"
            )
            level: Level = "fail" if row["xids"] > SLOT_XIDS else "warn"
            remedy = f"start its standby, or: select pg_drop_replication_slot('{row['slot_name']}')"
            yield Finding(level, "slot", what, remedy)


# A commit that a standby confirms waits for a moment too. query_start: of the COMMIT, or of the
# statement that was a transaction of its own.
STANDBYS = """
    select w.*, current_setting('synchronous_standby_names') as wanted,
        (select string_agg(format('%s (%s)', application_name, sync_state), ', ' order by pid)
            from pg_stat_replication) as connected
    from (
        select count(*) as sessions, max(now() - query_start) as longest,
            (array_agg(format('pid %s, %s', pid, application_name) order by query_start))[1] as who
        from pg_stat_activity
        where wait_event = 'SyncRep' and datname = current_database()
            and query_start < now() - interval '5 s') w
    where w.sessions > 0
"""


def judge_standbys(rows: list[Row]) -> Iterator[Finding]:
    """Report commits that wait for a synchronous standby. Rights: pg_read_all_stats."""
    for row in rows:
        what = (
            f"{row['sessions']} session(s) wait for a synchronous standby to confirm a commit, "
            f"{row['who']} for {duration(row['longest'])}: synchronous_standby_names is "
            f"'{row['wanted']}', connected: {row['connected'] or 'none'}"
        )
        remedy = (
            "start the standby, or take it out of synchronous_standby_names (alter system set, "
            "select pg_reload_conf()): until then no consumer goes on"
        )
        yield Finding("fail", "standby", what, remedy)
