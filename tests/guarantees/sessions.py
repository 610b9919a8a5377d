"""Sessions that a test interleaves by hand: plain psycopg, one statement at a time."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql

from tests.support import gates
from tests.support.databases import QUEUE_IS_NEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

RC, RR, SERIALIZABLE = "read committed", "repeatable read", "serializable"
ISOLATIONS = (RC, RR, SERIALIZABLE)


ROTATES = {"rotation_period": "1 microsecond"}
MORE_PAGES = 12  # an index that grows a level; a walk over dead rows or ticks costs hundreds
HANGS = "-c statement_timeout=60s"  # a test that hangs fails


@contextmanager
def refused(*sqlstates: str) -> Iterator[pytest.ExceptionInfo[psycopg.Error]]:
    """Expect that the database refuses with one of these codes."""
    import pytest  # not by the processes that a test starts and kills

    with pytest.raises(psycopg.Error) as failed:
        yield failed
    assert failed.value.sqlstate in sqlstates


class Row(NamedTuple):
    """What a test looks at of an event."""

    id: int
    data: str
    txid: int


class Session:
    """One connection, and the queue's verbs on it; the queue is `q` and the consumer `c`.

    `later` runs a statement in the background, for those that have to wait for another session.
    """

    def __init__(self, dsn: str) -> None:
        """Connect in autocommit mode."""
        self.connection = psycopg.connect(dsn, autocommit=True, options=HANGS)
        self._background = ThreadPoolExecutor(1)

    def close(self) -> None:
        """Disconnect; whoever waits in the background is broken off."""
        if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            self.connection.cancel_safe(timeout=5)
        self._background.shutdown()
        gates.calls.pop(self.pid, None)
        self.connection.close()

    @property
    def pid(self) -> int:
        """The backend's process id."""
        return self.connection.info.backend_pid

    def all(self, query: str, *args: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self.connection.execute(query.encode(), args).fetchall()

    def one(self, query: str, *args: Any) -> Any:
        """Return the first column of the first row, None if there is no row."""
        row = self.connection.execute(query.encode(), args).fetchone()
        return row and row[0]

    def pages(self, query: str) -> int:
        """Return how many pages a query looks at."""
        (plan,) = self.one(f"explain (analyze, buffers, format json) {query}")
        return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])

    def run(self, command: str) -> None:
        """Run a command that returns nothing."""
        self.connection.execute(command.encode())

    def later(self, query: str, *args: Any) -> Future[Any]:
        """Start a query that will have to wait, as `one` in the background."""
        call = gates.calls[self.pid] = self._background.submit(self.one, query, *args)
        return call

    def begin(self, isolation: str = RC) -> None:
        """Begin a transaction; its snapshot, in the higher isolation levels, is taken now."""
        self.run(f"begin isolation level {isolation}")
        self.one("select 1 from pgq.queue limit 1")

    def commit(self) -> None:
        """Commit."""
        self.run("commit")

    def rollback(self) -> None:
        """Roll back."""
        self.run("rollback")

    def insert(self, data: str, queue: str = "q") -> int:
        """Insert an event."""
        event_id = self.one("select pgq.insert_event(%s, 't', %s)", queue, data)
        assert event_id is not None
        return int(event_id)

    def current_table(self, queue: str = "q") -> str:
        """Return the name of the table that a COPY writes into."""
        return str(self.one("select pgq.current_event_table(%s)", queue))

    def copy(self, table: str, *data: str) -> None:
        """Insert events by COPY into a table learned before."""
        statement = sql.SQL("copy {} (ev_type, ev_data) from stdin").format(sql.SQL(table))
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for each in data:
                copy.write_row(("t", each))

    def tick(self, queue: str = "q") -> int:
        """Tick the queue now."""
        return int(self.one("select tick_id from pgq.tick_queue(%s)", queue))

    def tick_after(self, *data: str) -> None:
        """Insert events, each followed by a tick."""
        for each in data:
            self.insert(each)
            self.tick()

    def next(self, consumer: str = "c", queue: str = "q") -> int | None:
        """Open the next batch."""
        batch: int | None = self.one("select pgq.next_batch(%s, %s)", queue, consumer)
        return batch

    def events(self, batch: int | None) -> list[Row]:
        """Read a batch."""
        rows = self.all("select ev_id, ev_data, ev_txid from pgq.get_batch_events(%s)", batch)
        return [Row(*row) for row in rows]

    def data(self, batch: int | None) -> list[str]:
        """Read the payloads of a batch."""
        return [event.data for event in self.events(batch)]

    def finish(self, batch: int | None) -> int:
        """Finish a batch: 1, or 0 if it is not open."""
        return int(self.one("select pgq.finish_batch(%s)", batch))

    def batches(self, consumer: str = "c", queue: str = "q") -> Iterator[list[str]]:
        """Take batch after batch until there is none: the payloads of each."""
        while (batch := self.next(consumer, queue)) is not None:
            yield self.data(batch)
            assert self.finish(batch) == 1

    def drain(self, consumer: str = "c", queue: str = "q") -> list[str]:
        """Take everything there is: the payloads, in their order."""
        return [data for batch in self.batches(consumer, queue) for data in batch]

    def deliver(self, consumer: str = "c", queue: str = "q") -> list[str]:
        """Tick and take everything there is."""
        self.tick(queue)
        return self.drain(consumer, queue)

    def rotate(self, queue: str = "q") -> int:
        """Try to rotate the queue, both steps; return the number of its current table."""
        self.one("select pgq.maint_rotate_tables_step1(%s)", queue)
        self.one("select pgq.maint_rotate_tables_step2()")
        current = self.one("select queue_cur_table from pgq.queue where queue_name = %s", queue)
        return int(current)


class Database:
    """A test's database: a session `main`, and more by `open()`."""

    def __init__(self, place: str | Callable[[bool], str]) -> None:
        """Take a DSN, or a function that makes a database: with the queue already, or without."""
        self._place = place
        self._stack = ExitStack()

    @property
    def dsn(self) -> str:
        """The connection string."""
        if callable(self._place):
            self._place = self._place(False)  # whether it has the queue already
        return self._place

    @cached_property
    def main(self) -> Session:
        """The first session."""
        return self.open()

    def close(self) -> None:
        """Close all sessions."""
        self._stack.close()

    def open(self) -> Session:
        """Open one more session; it is closed with the database."""
        session = Session(self.dsn)
        self._stack.callback(session.close)
        return session

    def behind(
        self, first: str | Callable[[Session], object], query: str, *args: Any, end: str = "commit"
    ) -> Any:
        """Let a query wait for another session's transaction, which ends then; return its result.

        `first` is what the other session does, and the query waits for.
        """
        one, other = self.open(), self.open()
        one.begin()
        one.one(first) if isinstance(first, str) else first(one)
        waits = other.later(query, *args)
        assert gates.wait_until_blocked(self.main.connection, other.pid) == [one.pid]
        one.run(end)
        return waits.result(timeout=30)

    @contextmanager
    def held(self, session: Session, replacement: str) -> Iterator[gates.Gate]:
        """Hold a session before a gate in a function that `replacement` puts in place of ours.

        In that function, `{}` is the statement that waits, for this session only.
        """
        with gates.shut_gate(self.open().connection) as gate:
            wait = gate.wait_sql.replace("select", "perform", 1)
            hold = f"if current_setting('test.held', true) = 'yes' then {wait}; end if;"
            self.main.run(replacement.format(hold))
            session.run("set test.held = 'yes'")
            yield gate

    def queue(self, name: str = "q", *, consumers: tuple[str, ...] = ("c",), **config: str) -> None:
        """Make a queue that may rotate at any time, with consumers and other settings."""
        if callable(self._place) and name == "q" and consumers[:1] == ("c",):
            self._place = self._place(True)  # as above
            self.main.run(QUEUE_IS_NEW)
            consumers = consumers[1:]
        else:
            self.main.one("select pgq.create_queue(%s)", name)
            config = {**ROTATES, **config}
        for parameter, value in config.items():
            self.main.one("select pgq.set_queue_config(%s, %s, %s)", name, parameter, value)
        for consumer in consumers:
            self.main.one("select pgq.register_consumer(%s, %s)", name, consumer)
