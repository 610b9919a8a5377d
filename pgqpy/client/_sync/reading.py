"""[Generated from _async/reading.py by tools/unasync.py: edit that file, not this one.] Reads of events over a connection: one SELECT, or a cursor."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from psycopg import Cursor
from psycopg.errors import ProgramLimitExceeded

from pgqpy import calls
from pgqpy.client._sync.runner import CallRunner, inner_transaction, rows_of
from pgqpy.client._rows import UtcLoader, event_row, to_event
from pgqpy.client.opening import check_encoding
from pgqpy.errors import InvalidEvent
from pgqpy.sqlstates import translated

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from psycopg.abc import Params

    from pgqpy.calls.read import EventSet, Statement
    from pgqpy.records import Batch, Event

TOO_LARGE = (
    "an event of {} is too large to be sent ({}): find it by the octet_length of its fields, and "
    "delete it from the queue's table"
)


class EventReader(CallRunner):
    """A runner that reads events too; their times are in UTC."""

    def fetch_batch_events(
        self, batch: Batch | int, fetch_size: int
    ) -> Generator[list[Event], None, None]:
        """Iterate over the same events as lists of at most `fetch_size`, which is faster.

        Close it if you stop early.
        """
        size, batch_id = calls.read.checked_fetch_size(fetch_size), calls.batch_id(batch)
        origin = self.origin()
        wanted = calls.read.of_batch(batch_id)
        if calls.read.fits(batch, size):
            # The ticks only estimate the number of events. If there are more, a cursor reads all.
            query = calls.read.select_at_most(size + 1)
            events = self.read(wanted, query, wanted.params)
            if len(events) <= size:
                yield events
                return
        name = calls.read.cursor_name(batch_id)
        # Another thread or task may have the transaction of insert_events.
        with self.locked(origin):
            if not self.is_alone():
                first = self.read(wanted, calls.read.OPEN_CURSOR, (batch_id, name, size))
                reader = self.fetch(wanted, name, size, first, held=False)
            else:
                self.hold_cursor(wanted, batch_id, name)
                reader = self.fetch(wanted, name, size, None, held=True)
        with closing(reader) as lists:
            for some in lists:
                yield some

    def read(
        self,
        events: EventSet,
        query: Statement,
        params: Params | None = None,
        *,
        prepare: bool | None = None,
    ) -> list[Event]:
        """Run a statement that reads some of these events; an empty list if it returns no rows."""
        with self.locked():
            with _explained(events):
                return self._fetch(query, params, prepare=prepare)

    def _fetch(
        self, query: Statement, params: Params | None, *, prepare: bool | None
    ) -> list[Event]:
        check_encoding(self.connection)
        with Cursor(self.connection, row_factory=event_row) as cursor:
            cursor.adapters.register_loader("timestamptz", UtcLoader)
            cursor.execute(query, params, binary=True, prepare=prepare)
            return rows_of(cursor, to_event)

    def hold_cursor(self, events: EventSet, batch_id: int, name: str) -> None:
        """Open a cursor WITH HOLD over a batch, outside a transaction."""
        self.close_left_open()
        with _explained(events):
            with inner_transaction(self.connection), self.cursor() as cursor:
                cursor.execute(calls.read.SETTINGS_AND_QUERY, (batch_id,))
                query = str((cursor.fetchall())[0][-1])
                cursor.execute(calls.read.declare_held(name, query), prepare=False)

    def fetch(
        self, events: EventSet, name: str, size: int, first: list[Event] | None, *, held: bool
    ) -> Generator[list[Event], None, None]:
        """Yield the events of an open cursor as lists; `first` are those that were read already.

        The cursor is closed before the last events are yielded: their handler may roll back.
        """
        is_open, some = True, first
        try:
            while is_open:
                if some is None:
                    some = self.read(events, calls.read.fetch(name, size), prepare=False)
                if len(some) < size:
                    is_open = False
                    with self.exclusive:
                        self.close_cursor(name)
                if some:
                    yield some
                some = None
        finally:
            if is_open:
                self.abandon_cursor(name, held=held)


@contextmanager
def _explained(events: EventSet) -> Iterator[None]:
    """Raise a PgqError for an error of reading these events: also if a row has more than 1 GB."""
    try:
        with translated(events.function, events.error_data):
            yield
    except ProgramLimitExceeded as exc:
        text = TOO_LARGE.format(events.name, exc.diag.message_primary)
        raise InvalidEvent(text, **events.error_data, sqlstate=exc.sqlstate) from exc
