"""An archive in a table of the queue's own database: rows and position in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql
from psycopg.rows import tuple_row

from pgqpy import tick_ranges
from pgqpy.archive.consumer import ArchiveConsumer, missing_archive
from pgqpy.archive.errors import ArchiveMismatch
from pgqpy.calls.read import COLUMNS
from pgqpy.consumers._sync.lock import RunningLock
from pgqpy.consumers._sync.session import Session
from pgqpy.consumers.waiting import Wakeup
from pgqpy.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import LiteralString

    from pgqpy.archive.file_format import Identity
    from pgqpy.archive.run import ArchiveOptions

PREFIX = "table:"
CREATE = sql.SQL("""
    create table {} (
        queue_id int not null, to_tick bigint not null,
        ev_id bigint not null, ev_time timestamptz not null, ev_txid bigint not null, ev_retry int,
        ev_type text, ev_data text,
        ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text)""")
INDEX = sql.SQL("create index on {} (queue_id, to_tick)")
EXISTS: LiteralString = """
    select exists (
            select from pg_class c join pg_namespace n on n.oid = c.relnamespace
             where n.nspname = %s and c.relname = %s)"""
# Which of the table and its partitions must not get the rows, and why. A crash empties unlogged
# tables, and a foreign table commits on its own: the position would be ahead of the rows. A trigger
# runs with the rights of the role that inserts: so the table must have none. Its owner can add one,
# and the owner of its schema can replace the table: client.schema_owner must trust both.
UNFIT: LiteralString = """
    with trusted as (
        select r.oid
          from pg_roles r
          join pg_database d on d.datname = current_database()
         where r.oid = d.datdba or r.rolname in (current_user, 'pg_database_owner')
            or pg_has_role(r.oid, session_user, 'member')),
    judged as (
        select c.oid, n.nspowner, c.relowner,
               case when not (c.relkind in ('r', 'p') and c.relpersistence = 'p') then 'kind'
                    when c.relowner not in (select oid from trusted) then 'owner'
                    when n.nspowner not in (select oid from trusted) then 'schema'
                    when exists (
                        select from pg_trigger where tgrelid = c.oid and not tgisinternal)
                    then 'trigger' end as reason
          from pg_class t
          join pg_namespace n on n.oid = t.relnamespace
         cross join lateral (
                select t.oid union select relid from pg_partition_tree(t.oid)) tree (oid)
          join pg_class c on c.oid = tree.oid
         where n.nspname = %s and t.relname = %s)
    select oid::regclass::text, reason, relowner::regrole::text, nspowner::regrole::text
      from judged where reason is not null
     order by array_position('{kind,owner,schema,trigger}', reason) limit 1"""
WHY = {
    "kind": "is not an ordinary logged table: it could lose rows that the consumer has passed",
    "owner": "belongs to role {owner}, whose triggers would run with your rights",
    "schema": "is in a schema of role {schema_owner}, who could put another table in its place",
    "trigger": "has triggers, which would run with your rights",
}
LOCK = sql.SQL("lock table {} in row exclusive mode")
LAST = sql.SQL("select max(to_tick) from {} where queue_id = {}")
INSERT = sql.SQL("""
    insert into {table} (queue_id, to_tick, {columns})
    select {queue_id}, {to_tick}, {columns} from ({query}) event order by ev_id, ev_txid""")


class TableName(NamedTuple):
    """A table, by its names as the catalogue has them."""

    schema: str
    table: str

    @property
    def quoted(self) -> sql.Identifier:
        """Return it for a statement."""
        return sql.Identifier(*self)


def parse_table(location: str) -> TableName:
    """Return the table of `table:NAME` or `table:SCHEMA.NAME`; without a schema, it is public."""
    schema, dot, table = location.removeprefix(PREFIX).rpartition(".")
    if not table or (dot and not schema):
        raise InvalidArgument(
            f"{location!r} names no table: write table:orders_archive or table:SCHEMA.NAME",
            parameter="to",
        )
    return TableName(schema or "public", table)


def run_table(
    options: ArchiveOptions, table: TableName, dsn: str, say: Callable[[str], None]
) -> tuple[int, int]:
    """Archive the events up to the last tick; return how many ranges and events.

    The table is made if it is missing. Raises as `run_archive`, and ArchiveMismatch if the table
    cannot keep the rows, or belongs to a role that is not trusted.
    """
    session = Session.open(dsn, f"pgqpy archive {options.queue}")
    try:
        session.client.runner.require_pgqpy("advance_subscription")
        return _Run(options, table, session, say).run()
    finally:
        session.close()


class _Run:
    def __init__(
        self,
        options: ArchiveOptions,
        table: TableName,
        session: Session,
        say: Callable[[str], None],
    ) -> None:
        self.options = options
        self.table = table
        self.session = session
        self.say = say
        self.client = session.client
        self.consumer = ArchiveConsumer(self.client, options.queue, options.consumer)

    def run(self) -> tuple[int, int]:
        own = self.consumer.identify()
        position = self.consumer.find_position()
        if position is not None:
            self.consumer.refuse_batches(position)
        self._create(may=position is None or self.options.new)
        last = self._last(own)
        if position is None:
            self.consumer.register(last)
        RunningLock(own.queue, own.consumer).take(self.session, Wakeup())
        self._check(own)
        target = tick_ranges.find_queue(self.client, own.queue).last_tick
        ranges = events = 0
        while (inserted := self._next_range(own, target)) is not None:
            ranges, events = ranges + bool(inserted), events + inserted
        return ranges, events

    def _create(self, *, may: bool) -> None:
        name = ".".join(self.table)
        with self.client.transaction():
            ((exists,),) = self.client.connection.execute(EXISTS, self.table).fetchall()
            if not exists and not may:
                raise missing_archive(f"table {name} does not exist", self.consumer)
            if not exists:
                self.client.connection.execute(CREATE.format(self.table.quoted))
                self.client.connection.execute(INDEX.format(self.table.quoted))
                self.say(f"created table {name}")

    def _check(self, own: Identity) -> None:
        position = self.consumer.position()
        last = self._last(own)
        if last is not None and last > position.tick:
            raise ArchiveMismatch(
                f"consumer {own.consumer!r} of queue {own.queue!r} is at tick {position.tick}, and "
                f"the table has its events up to tick {last}: it was moved back. Delete the rows "
                f"with to_tick > {position.tick} and this queue_id ({own.queue_id}), or unregister "
                "the consumer: then it is registered where the rows end",
                queue=own.queue,
            )
        self.consumer.mark_as_reader(position.tick)

    def _last(self, own: Identity) -> int | None:
        """Return the last tick of the queue's rows in the table; None without rows."""
        with self.client.transaction():
            self._lock()
            query = LAST.format(self.table.quoted, own.queue_id)
            ((last,),) = self.client.connection.execute(query).fetchall()
        return None if last is None else int(last)

    def _next_range(self, own: Identity, target: int) -> int | None:
        """Insert the events of one range and move the consumer, both or none; None at the end."""
        with self.client.transaction():
            self.client.connection.execute("set transaction isolation level read committed")
            found = self.consumer.find_range(target, self.options.max_events)
            if found is None:
                return None
            self._lock()
            query = sql.SQL(self.client.tick_event_sql(own.queue, *found))
            self.client.connection.execute("set local enable_seqscan = off; set local jit = off")
            insert = INSERT.format(
                table=self.table.quoted,
                columns=sql.SQL(COLUMNS),
                queue_id=own.queue_id,
                to_tick=found[1],
                query=query,
            )
            events = self.client.connection.execute(insert).rowcount
            self.consumer.advance(*found)
        if events:
            self.say(f"ticks {found[0]} to {found[1]}: {events:,} event(s)")
        return events

    def _lock(self) -> None:
        """Lock the table's definition for the transaction; ArchiveMismatch if it is unfit."""
        self.client.connection.execute(LOCK.format(self.table.quoted))
        with self.client.connection.cursor(row_factory=tuple_row) as cursor:
            unfit = cursor.execute(UNFIT, self.table).fetchone()
        if unfit is None:
            return
        name, reason, owner, schema_owner = unfit
        why = WHY[reason].format(owner=owner, schema_owner=schema_owner)
        raise ArchiveMismatch(f"{name} {why}: name another table", queue=self.options.queue)
