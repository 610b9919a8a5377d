"""The numbers of pgqpy's advisory locks, and queries for the sessions that own or block them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import LiteralString

# The first key of each lock, with its second key:
ENGINE = 7366513  # one of the next six
TICKING, INSTALLING, CHANGING, WATCHING, MOVING = 0, 1, 2, 3, 4
SANDBOX = 7  # one demo or simulation in a database at a time
CONSUMER = 7366514  # a subscription's id
QUEUE = 7366515  # a queue's id; tickers hold it shared; drop, repair and rename exclusively
SEQUENCE = 7366517  # the hash of a sequence's name: see seq_setval
SKIPS = 7366518  # a queue's id: cancelling events and registering consumers take turns
REFILL = 7366519  # a subscription's id: one session at a time looks for its new events
HOLDER = 7366520  # a holder's id: the session of a process that claims events
CLAIM = 7366521  # a subscription's id: one session at a time claims, where limits are to be kept
COPYING = 7366522  # a queue's id: rows of a table are copied; refills hold it shared

# Any session may take any lock, and invent its application name. may_tick and may_consume tell
# whether the owner has the rights of a ticker or consumer. A prepared transaction has no session.
_SESSIONS: LiteralString = """
        left join pg_stat_activity a on a.pid = l.pid
        left join (
            select own.virtualtransaction, x.gid, x.owner, x.prepared
            from pg_locks own join pg_prepared_xacts x on x.transaction = own.transactionid
            where own.locktype = 'transactionid' and own.pid is null and own.granted) p
            on l.pid is null and p.virtualtransaction = l.virtualtransaction
"""
_LOCKS: LiteralString = f"""
    select l.classid::int8 as class, l.objid::int8 as object, l.mode = 'ExclusiveLock' as exclusive,
        l.granted, l.pid, coalesce(a.usename, p.owner)::text as role,
        a.application_name as application, host(a.client_addr) as address,
        a.client_hostname as hostname, a.backend_start as start, p.gid::text as prepared,
        has_function_privilege(coalesce(a.usename, p.owner),
            to_regprocedure('pgq.ticker(text)'), 'execute') as may_tick,
        has_function_privilege(coalesce(a.usename, p.owner),
            to_regprocedure('pgq.next_batch(text,text)'), 'execute') as may_consume
    from pg_locks l {_SESSIONS}
    where l.locktype = 'advisory' and l.objsubid = 2
        and l.database = (select oid from pg_database where datname = current_database())
        and l.classid in ({ENGINE}, {CONSUMER}, {QUEUE}, {SEQUENCE}, {SKIPS})
"""  # noqa: S608  # our own query within our own
OWNERS: LiteralString = f"""
    select l.* from ({_LOCKS}) l where l.granted
"""  # noqa: S608  # our own query within our own
# Owners, and sessions that wait for the exclusive lock of a consumer or queue. Workers and tickers
# take these locks shared; behind a request for the exclusive one PostgreSQL refuses that.
BLOCKERS: LiteralString = f"""
    select l.* from ({_LOCKS}) l
    where l.granted or l.exclusive and l.class in ({CONSUMER}, {QUEUE})
"""  # noqa: S608  # our own query within our own
# Open and prepared transactions that have locked rows of pgq.registration, but those of consumers
# that run, the oldest first. Nothing shows which rows, and how. locker: LockOwner's first fields.
LOCKERS: LiteralString = f"""
    select array[a.pid::text, coalesce(a.usename, p.owner)::text, a.application_name,
        host(a.client_addr), null, p.gid::text] as locker
    from pg_locks l {_SESSIONS}
    where l.locktype = 'relation' and l.relation = 'pgq.registration'::regclass
        and l.database = (select oid from pg_database where datname = current_database())
        and l.mode in ('RowShareLock', 'RowExclusiveLock') and l.granted
        and not exists (
            select from pg_locks runs
            where runs.pid = l.pid and runs.locktype = 'advisory' and runs.classid = {CONSUMER})
    order by coalesce(a.xact_start, p.prepared)
"""  # noqa: S608  # our own query within our own
# The sessions that run consumers. A running Consumer holds the lock of its subscription.
RUNNING: LiteralString = f"""
    select q.queue_name, c.co_name as consumer_name, h.pid, h.application,
        coalesce(h.hostname, h.address) as host
    from ({OWNERS}) h
        join pgq.subscription s on h.class = {CONSUMER} and h.object = s.sub_id
        join pgq.queue q on q.queue_id = s.sub_queue
        join pgq.consumer c on c.co_id = s.sub_consumer
    where h.pid is not null and h.may_consume is not false
"""  # noqa: S608  # our own query within our own
# One owner of a lock. Parameters: class, object.
OWNER: LiteralString = f"""
    select pid, role, application, address, start, prepared, may_tick, may_consume
    from ({OWNERS}) h where class = %s and object = %s order by pid limit 1
"""  # noqa: S608  # our own query within our own
# The session because of which a lock is refused. A shared owner keeps out exclusive requests only.
# Parameters: class, object, whether the lock is wanted shared.
BLOCKER: LiteralString = f"""
    select pid, role, application, address, start, prepared, may_tick, may_consume, granted
    from ({BLOCKERS}) h where class = %s and object = %s and (exclusive or not %s)
    order by granted desc, pid limit 1
"""  # noqa: S608  # our own query within our own


class LockOwner(NamedTuple):
    """The owner of an advisory lock, or a session that waits for it; hidden fields are None."""

    pid: int | None
    role: str | None
    application: str | None = None
    address: str | None = None
    start: datetime | None = None
    prepared: str | None = None  # the name of a prepared transaction
    may_tick: bool | None = None
    may_consume: bool | None = None
    granted: bool = True  # False: it waits for the lock

    def __str__(self) -> str:
        """Describe the owner, for use in a sentence."""
        if self.pid is None:
            return f"prepared transaction {self.prepared!r} of role {self.role}"
        application = self.application or "unknown application"
        where = f", from {self.address}" if self.address else ""
        since = f", connected since {self.start:%Y-%m-%d %H:%M:%S %z}" if self.start else ""
        role = self.role if self.role is None or self.role.isprintable() else repr(self.role)
        return f"{application}, server process {self.pid}, role {role}{where}{since}"

    def blocks(self, lock: str) -> str:
        """Say in a clause how this session keeps others from the lock."""
        if self.granted:
            return f"{lock} is held by {self}"
        return f"{lock} is refused to sessions that ask after {self}, which waits for it"

    @property
    def may_be_ticker(self) -> bool:
        """Whether the owner is a session whose role may tick."""
        return self.pid is not None and self.may_tick is not False

    @property
    def may_be_consumer(self) -> bool:
        """Whether the owner is a session whose role may read batches."""
        return self.pid is not None and self.may_consume is not False

    @property
    def how_to_end(self) -> str:
        """The SQL statement that releases the lock, or ends the wait."""
        if self.pid is None:
            return f"rollback prepared {_literal(self.prepared or '')}"
        return f"select pg_terminate_backend({self.pid})"


def _literal(text: str) -> str:
    """Return a literal of SQL: the same text whatever standard_conforming_strings says."""
    quoted = text.replace("'", "''")
    if text.isprintable() and text.isascii() and "\\" not in text:
        return f"'{quoted}'"
    # No \xe9: that is a byte, which is no character by itself.
    escaped = quoted.replace("\\", "\\\\")
    return "E'" + "".join(each if " " <= each <= "~" else _escape(each) for each in escaped) + "'"


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
