"""A consumer that keeps tables of one database in another one, exactly once."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, sql

from pgqpy.client import connect, connect_as_tool
from pgqpy.consumers import Consumer, Retry
from pgqpy.consumers.for_tools import is_collision, is_loss
from pgqpy.consumers.retry import backoff
from pgqpy.errors import PgqError
from pgqpy.records.changes import split_type
from pgqpy.settings import default_dsn
from pgqpy.tick_ranges import queue_not_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import LiteralString, Unpack

    from pgqpy.client import Client
    from pgqpy.consumers import ConsumerSettings, OpenBatch
    from pgqpy.records import Event

PAGE_EVENTS, PAGE_SIZE = 2000, 4_000_000  # events and characters that memory holds
RETRY_BASE, RETRY_MAX = 0.1, 10.0  # seconds
COLUMN_NAMES = json.JSONDecoder(parse_int=str, parse_float=str)  # the values do not matter

# The lock: CREATE fails where two do it at once.
FENCE: LiteralString = """
    select pg_advisory_xact_lock(hashtext('pgqpy_mirror'));
    create table if not exists public.pgqpy_mirror (
        source text, queue text, consumer text,
        tick bigint not null, tick_time timestamptz not null,
        primary key (source, queue, consumer))"""
# Of one transaction. A commit that does not wait for the disk could be lost after its batch is
# finished. Constraints that can wait are checked when all changes are there.
BEGIN: LiteralString = """
    select set_config('synchronous_commit',
               replace(current_setting('synchronous_commit'), 'off', 'on'), true);
    set constraints all deferred"""
ADVANCE: LiteralString = """
    update public.pgqpy_mirror set tick = %(tick_id)s, tick_time = %(tick_time)s
     where source = %(source)s and queue = %(queue)s and consumer = %(consumer)s
       and tick = %(prev_tick_id)s and tick_time = %(prev_tick_time)s"""
FIRST_RUN: LiteralString = """
    insert into public.pgqpy_mirror
    values (%(source)s, %(queue)s, %(consumer)s, %(tick_id)s, %(tick_time)s)
    on conflict do nothing"""
POSITION: LiteralString = """
    select tick, tick_time from public.pgqpy_mirror
     where source = %(source)s and queue = %(queue)s and consumer = %(consumer)s"""
SOURCE: LiteralString = """
    select format('%%s/%%s', queue_system_id, current_database()),
           (select coalesce(json_object_agg(table_name, key_columns), '{}')
              from pgq.get_captures(q.queue_name))
      from pgq.queue q where queue_name = %s"""
COLUMNS: LiteralString = """
    select attname::text, atttypid in ('json[]'::regtype, 'jsonb[]'::regtype) from pg_attribute
     where attrelid = %s::text::regclass and attnum > 0 and not attisdropped
       and attgenerated = ''"""
KEYS: LiteralString = """
    select array(select attname::text from unnest(indkey[:indnkeyatts - 1]) num
                   join pg_attribute on attrelid = indrelid and attnum = num)
      from pg_index
     where indrelid = %s::text::regclass and indisunique and indisvalid and indimmediate
       and indpred is null and indexprs is null
     order by indisprimary desc"""
UPSERT: LiteralString = """
    insert into {table} ({columns}) overriding system value
    select {columns} from json_populate_recordset(null::{table}, %s::text::json)
    on conflict ({key}) do {action}"""
DELETE: LiteralString = """
    delete from {table} t using json_populate_recordset(null::{table}, %s::text::json) r
     where {same}"""


class Mirror(Consumer):
    """Keeps captured tables in another PostgreSQL: each change is applied exactly once.

    The tables have to exist there, with the same key: `pgqpy capture ddl` prints them. It applies a
    batch in one transaction of the target, which also notes the batch's tick in the table
    `public.pgqpy_mirror`. While the target cannot be reached, the batch is attempted again; any
    other error of the target ends `run()`.

        Mirror(source, queue="shop", name="mirror", target="postgresql://reports/shop").run()

    Attributes:
        target: where the tables are kept, as libpq takes it; None: PGQPY_TARGET.
        tables: the tables, as schema.table without quotes, or a mapping to their names in the
            target; None: all that the queue captures.
    """

    target: str | None = None
    tables: Sequence[str] | Mapping[str, str] | None = None
    on_error = "stop"
    whole_batches = True

    def __init__(
        self,
        dsn: str | None = None,
        *,
        target: str | None = None,
        tables: Sequence[str] | Mapping[str, str] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        """Take where to connect, and settings of one instance. Raises as Consumer."""
        super().__init__(dsn, **settings)
        self.target = target or self.target or os.environ.get("PGQPY_TARGET")
        self.tables = self.tables if tables is None else tables
        if not self.target:
            raise ValueError("Mirror.target says where the tables are kept: set it or PGQPY_TARGET")
        if self.is_shared:
            raise ValueError("a Mirror is a plain consumer: more processes are its standbys")
        if self.on_error != "stop":
            raise ValueError('Mirror.on_error is "stop": a batch is applied as a whole')
        self._names = _names(self.tables)
        if self.filter:  # the server would move the position past ticks, and not the fence
            raise ValueError("Mirror.tables says which changes are applied, not filter")
        self._session: _TargetSession | None = None
        self._failures = 0  # in a row

    def run(self, *, wait: bool = True, signals: bool | None = None) -> None:
        """Apply batches until `stop()`: see Consumer. Raises ConnectionFailed for the target."""
        try:
            session = self._open()  # a target that is not there at the start is a mistake
            session.check_captured(self.queue, self._names)
            super().run(wait=wait, signals=signals)
        finally:
            self._close()

    def process_batch(self, batch: OpenBatch) -> None:
        """Apply a batch to the target. Raises Retry if it is to be attempted again."""
        try:
            session = self._open()
            with session.connection.transaction():
                if session.advance(batch):
                    self._apply(session, batch)
        except (psycopg.Error, PgqError) as error:
            if not is_loss(error) and not is_collision(error):
                raise
            self._close()
            delay = backoff(self._failures, base=RETRY_BASE, maximum=RETRY_MAX)
            self._failures += 1
            raise Retry(delay, "the batch could not be applied") from error
        self._failures = 0

    def _apply(self, session: _TargetSession, batch: OpenBatch) -> None:
        tables: dict[str, _MirroredTable] = {}
        events = size = 0
        for event in batch:
            found = split_type(event.type)
            if found is None or (self._names and found[0] not in self._names):
                continue
            name, op = found
            if name not in tables:
                tables[name] = session.find_table(self.queue, name, self._names.get(name, name))
            tables[name].add(op, event)
            events, size = events + 1, size + len(event.data or "")
            if events == PAGE_EVENTS or size > PAGE_SIZE:
                session.write(tables.values())
                events = size = 0
                if self.stopping:
                    raise Retry(0, "the mirror stops in the middle of a batch")
        session.write(tables.values())

    def _open(self) -> _TargetSession:
        if self._session is None:
            source = default_dsn() if self.dsn is None else self.dsn
            name = f"pgqpy mirror {self.name}"
            client = connect(str(self.target), fallback_application_name=name)
            self._session = _TargetSession(client, source)
            self._session.make_fence()
        return self._session

    def _close(self) -> None:
        if self._session is not None:
            self._session.client.close()
            self._session = None


class _TargetSession:
    """A session of the target, and what it has to know of the source."""

    def __init__(self, client: Client, source: str) -> None:
        self.client = client
        self.connection = client.connection
        self._source = source
        self._identity: str | None = None
        self._keys: dict[str, list[str]] = {}  # by table, as it is captured

    def make_fence(self) -> None:
        """Create the table of fences unless it is there."""
        with self.connection.transaction():
            query = "select to_regclass('public.pgqpy_mirror')"
            if self.connection.execute(query).fetchone() == (None,):
                self.connection.execute(FENCE)

    def check_captured(self, queue: str, names: Iterable[str]) -> None:
        """Raise PgqError for a table that the queue does not capture."""
        self._read_source(queue)
        if unknown := [name for name in names if name not in self._keys]:
            raise PgqError(f"queue {queue} does not capture {unknown[0]}: see pgqpy capture list")

    def advance(self, batch: OpenBatch) -> bool:
        """Move the fence to the end of a batch; False: the batch was applied before.

        The row stays locked until the transaction ends. Another process, which has the same batch
        or an older one, waits for it and then changes nothing. Raises PgqError if the target is
        neither at the start of the batch nor at its end.
        """
        info = batch.info
        if self._identity is None:
            self._read_source(info.queue)
        fence = {**info._asdict(), "source": self._identity}
        self.connection.execute(BEGIN)
        for statement in (ADVANCE, FIRST_RUN):
            if self.connection.execute(statement, fence).rowcount:
                return True
        tick, tick_time = self.connection.execute(POSITION, fence).fetchone() or (None, None)
        if (tick, tick_time) == (info.tick_id, info.tick_time):
            return False
        for _ in batch:
            pass  # a process whose session or batch is lost learns it here, and reconnects
        raise PgqError(
            f"the target has consumer {info.consumer} of queue {info.queue} at tick {tick}, and "
            f"this batch begins at tick {info.prev_tick_id}: changes are missing, or would be "
            "applied again. Truncate the tables in the target, delete the row from "
            "public.pgqpy_mirror, and take a new snapshot (pgqpy capture snapshot)"
        )

    def find_table(self, queue: str, name: str, target_name: str) -> _MirroredTable:
        """Lock a table of the target against DDL, and look at it. Raises PgqError."""
        if name not in self._keys:
            self._read_source(queue)  # it may be captured since
        wanted = self._keys.get(name)  # None: not any more, and the target's primary key will do
        table = sql.Identifier(*target_name.split(".", 1))
        try:
            self.connection.execute(sql.SQL("lock table {} in row exclusive mode").format(table))
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            raise _unfit(name, target_name, "is missing") from None
        place = [table.as_string(None)]
        keys = [row[0] for row in self.connection.execute(KEYS, place)]
        key = next((k for k in keys if wanted is None or sorted(k) == sorted(wanted)), None)
        if key is None:
            raise _unfit(name, target_name, f"has no unique key ({', '.join(wanted or ())})")
        columns = dict(self.connection.execute(COLUMNS, place).fetchall())
        return _MirroredTable(table, target_name, columns, key)

    def write(self, tables: Iterable[_MirroredTable]) -> None:
        """Write the changes of tables."""
        for table in tables:
            table.write(self.connection)

    def _read_source(self, queue: str) -> None:
        with connect_as_tool(self._source) as client:
            row = client.connection.execute(SOURCE, [queue]).fetchone()
            if row is None:
                raise queue_not_found(client, queue)
        self._identity, self._keys = row


class _MirroredTable:
    """A table of the target, and the changes that are to be written: the last one of each key.

    Rows of different keys can be written in any order, as far as constraints can wait.
    """

    def __init__(
        self, table: sql.Identifier, name: str, columns: dict[str, bool], key: list[str]
    ) -> None:
        self._table = table
        self._name = name
        self._columns = columns  # and whether they are arrays of JSON
        self._key = key
        self._truncated = False
        self._last: dict[str, tuple[str, str]] = {}  # op and row, by key

    def add(self, op: str, event: Event) -> None:
        """Note a change."""
        if op == "truncate":
            self._truncated = True
            self._last.clear()
        elif event.extra1 is None or event.data is None:
            raise ValueError(f"event {event.id} of type {event.type!r} has no key or no row")
        else:
            self._last[event.extra1] = op, event.data

    def write(self, connection: psycopg.Connection[Any]) -> None:
        """Write the changes, and forget them."""
        if self._truncated:
            self._truncate(connection)
        deleted: list[str] = []
        # The source may have got or lost columns between two changes.
        written: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for op, row in self._last.values():
            (deleted if op == "delete" else written[tuple(COLUMN_NAMES.decode(row))]).append(row)
        if deleted:
            connection.execute(self._delete(), [f"[{','.join(deleted)}]"])
        for columns, rows in written.items():
            connection.execute(self._upsert(columns), [f"[{','.join(rows)}]"])
        self._truncated = False
        self._last.clear()

    def _truncate(self, connection: psycopg.Connection[Any]) -> None:
        """Empty the table, row by row where a foreign key lets nobody truncate it."""
        try:
            with connection.transaction():
                connection.execute(sql.SQL("truncate {}").format(self._table))
        except (errors.ObjectInUse, errors.FeatureNotSupported):
            connection.execute(sql.SQL("delete from {}").format(self._table))

    def _delete(self) -> sql.Composed:
        same = [sql.SQL("t.{0} = r.{0}").format(sql.Identifier(name)) for name in self._key]
        return sql.SQL(DELETE).format(table=self._table, same=sql.SQL(" and ").join(same))

    def _upsert(self, columns: Iterable[str]) -> sql.Composed:
        comma, names = sql.SQL(", "), [name for name in columns if name in self._columns]
        for name in names:
            if self._columns[name]:  # json_populate_recordset takes an element [1] for a dimension
                raise PgqError(
                    f"table {self._name} has an array of JSON in the target, the column {name}: "
                    "make it text or jsonb there, or leave it out"
                )
        others = [sql.Identifier(name) for name in names if name not in self._key]
        sets = comma.join(sql.SQL("{0} = excluded.{0}").format(name) for name in others)
        return sql.SQL(UPSERT).format(
            table=self._table,
            columns=comma.join(map(sql.Identifier, names)),
            key=comma.join(map(sql.Identifier, self._key)),
            action=sql.SQL("update set {}").format(sets) if others else sql.SQL("nothing"),
        )


def _names(tables: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Return the names in the target by those in the source; none: all tables."""
    names = dict(tables if isinstance(tables, Mapping) else {name: name for name in tables or ()})
    if isinstance(tables, str) or any("." not in name for pair in names.items() for name in pair):
        raise ValueError('Mirror.tables is a list, such as ["public.orders"], or a mapping')
    return names


def _unfit(name: str, target_name: str, problem: str) -> PgqError:
    how = f"`pgqpy capture ddl {name}` prints how to create it"
    return PgqError(f"table {target_name} {problem} in the target: {how}")
