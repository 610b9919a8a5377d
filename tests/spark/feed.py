"""A queue that tests fill, and readers of it, called as Spark calls them."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql.datasource import CaseInsensitiveDict

from pgqpy.spark.data_source import PgqDataSource
from pgqpy.spark.source.stream import QueueStream, StreamReader
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    import pgqpy
    from pgqpy.spark.data_source import BatchReader

READERS = """
    select count(*) from pg_locks join pg_class on oid = relation and relname ~ '^event_[0-9]'
     where database = (select oid from pg_database where datname = current_database())
       and pid <> pg_backend_pid()"""
QUEUE = "orders"
CONSUMER = "lake"


class Feed:
    """A queue and the ways into it and out of it."""

    def __init__(self, client: pgqpy.Client, dsn: str, queue: str = QUEUE) -> None:
        """Create the queue."""
        self.client = client
        self.dsn = dsn
        self.queue = queue
        client.create_queue(queue)

    def insert(self, *datas: str | None, type: str | None = "test") -> list[int]:
        """Insert events with these data, take a tick, return their ids."""
        ids = [self.client.insert_event(self.queue, type, data) for data in datas]
        self.tick()
        return ids

    def tick(self) -> int:
        """Take a tick, and return it."""
        tick = self.client.tick_queue(self.queue)
        assert tick is not None
        return tick.tick_id

    def rotate(self, *, beside_reader: bool = False) -> None:
        """Let every table that can be truncated be truncated.

        The server's side of a connection that was closed ends a moment later, so it is waited for,
        unless somebody is to be reading.
        """
        if not beside_reader:
            eventually(lambda: self.client.connection.execute(READERS).fetchone() == (0,))
        self.client.set_queue_config(self.queue, "rotation_period", "1 microsecond")
        for _ in range(4):
            sql = self.client.connection.execute
            sql("select pgq.maint_rotate_tables_step1(%s)", [self.queue])
            sql("select pgq.maint_rotate_tables_step2()")

    def standing(self, consumer: str = CONSUMER) -> tuple[int, list[int]]:
        """Return the consumer's tick and its pins."""
        query = """
            select pos_last_tick, coalesce(pos_pins, '{}')
              from pgq.current_position join pgq.consumer on co_id = sub_consumer
             where co_name = %s"""
        row = self.client.connection.execute(query, [consumer]).fetchone()
        assert row is not None, f"no consumer {consumer}"
        return row[0], row[1]

    def options(self, **options: Any) -> dict[str, str]:
        """Return options that name the queue, and others; None takes one away, a dict is JSON."""
        given = {"dsn": self.dsn, "queue": self.queue, **options}
        return {
            name: json.dumps(value) if isinstance(value, dict) else str(value)
            for name, value in given.items()
            if value is not None
        }

    def source(self, **options: Any) -> PgqDataSource:
        """Make the source as Spark does."""
        return PgqDataSource(CaseInsensitiveDict(self.options(**options)))

    def batch(self, schema: StructType | None = None, **options: Any) -> BatchReader:
        """Make a reader of a batch."""
        source = self.source(**options)
        reader: Any = source.reader(schema or source.schema())
        return reader

    def stream(self, schema: StructType | None = None, **options: Any) -> Stream:
        """Make a reader of a stream."""
        source = self.source(**{"consumer": CONSUMER, **options})
        reader = source.streamReader(schema or source.schema())
        assert isinstance(reader, StreamReader)
        return Stream(reader)


class Stream:
    """Calls a reader in the order in which Spark does, and keeps what Spark would."""

    def __init__(self, reader: StreamReader) -> None:
        """Take a reader that nobody has called."""
        self.reader = reader
        self.offset: dict[str, Any] = {}

    @property
    def tick(self) -> int:
        """The tick of the last offset."""
        return int(self.offset[QUEUE]["tick"])

    @property
    def of_queue(self) -> QueueStream:
        """The only queue of the reader."""
        (found,) = self.reader._streams.values()
        return found

    def begin(self) -> Stream:
        """Start a new query: the first micro-batch is empty."""
        try:
            self.offset = self.reader.initialOffset()
        except BaseException:
            self.close()
            raise
        self.run()
        return self

    def resume(self, offset: dict[str, Any]) -> Stream:
        """Go on from a checkpoint."""
        self.offset = offset
        return self

    def ask(self) -> dict[str, Any]:
        """Ask for the end of the next micro-batch."""
        try:
            return dict(self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit()))
        except BaseException:
            self.close()  # as Spark does
            raise

    def latest(self) -> dict[str, Any]:
        """Ask for it at a time when the reader looks: no ticker is there to notify it."""
        self.reader._find_at = 0.0
        for stream in self.reader._streams.values():
            stream.poll_at = 0.0
        return self.ask()

    def run(self) -> list[dict[str, Any]]:
        """Run one micro-batch and return its rows; the one before is committed first."""
        end = self.latest()
        self.reader.commit(self.offset)
        rows = rows_of(self.reader, self.reader.partitions(self.offset, end))
        self.offset = end
        return rows

    def datas(self) -> list[str]:
        """Run one micro-batch and return its events' data, ordered."""
        return datas(self.run())

    def close(self) -> None:
        """Stop the query."""
        self.reader.stop()


def as_uri(dsn: str, password: str) -> str:
    """Return a DSN as a URI with a password: it has no word that Spark itself would hide."""
    given = conninfo_to_dict(dsn)
    user, name = given.pop("user", "postgres"), given.pop("dbname")
    secret = quote(str(given.pop("password", password)))
    return f"postgresql://{user}:{secret}@/{name}?{urlencode(given)}"


def crashed(stream: Stream) -> dict[str, Any]:
    """End a driver without a word, and return what its checkpoint says."""
    stream.close()
    return stream.offset


def rows_of(reader: Any, partitions: Any) -> list[dict[str, Any]]:
    """Read partitions as executors do: from pickled copies of the reader and of each."""
    executor = pickle.loads(pickle.dumps(reader))
    copies = pickle.loads(pickle.dumps(list(partitions)))
    batches = [batch for each in copies for batch in executor.read(each)]
    return [row for batch in batches for row in batch.to_pylist()]


def read(reader: Any) -> list[dict[str, Any]]:
    """Plan a batch and read it."""
    return rows_of(reader, reader.partitions())


def datas(rows: list[dict[str, Any]]) -> list[str]:
    """Return the events' data, ordered."""
    return sorted(row["ev_data"] for row in rows)
