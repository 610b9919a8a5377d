"""An archive in a table of the queue's own database: rows and position in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

from pgqpy import tick_ranges
from pgqpy.archive.consumer import ArchiveConsumer, missing_archive
from pgqpy.archive.errors import ArchiveMismatch
from pgqpy.archive.unfit import find_unfit
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
        unfit = find_unfit(self.client.connection, *self.table)
        if unfit is not None:
            raise ArchiveMismatch(f"{unfit}: name another table", queue=self.options.queue)
