"""[Generated from _async/cursor.py by tools/unasync.py: edit that file, not this one.] A server-side cursor over one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls

if TYPE_CHECKING:
    from pgqpy.client._sync.link import Link
    from pgqpy.records import Event


class BatchCursor:
    """Reads a batch `size` events at a time.

    Inside a transaction it is PGQ's cursor and ends with the transaction. In autocommit it is a
    cursor WITH HOLD: the server keeps the rows, and no transaction stays open between two fetches.
    """

    def __init__(self, link: Link, batch_id: int, size: int) -> None:
        """Open nothing yet."""
        self._link = link
        self._batch_id = batch_id
        self._events = calls.read.of_batch(batch_id)
        self._size = size
        self._name = calls.read.cursor_name(batch_id)
        self._held = link.alone()
        self._open = False

    def first(self) -> list[Event]:
        """Open the cursor and return the first events; empty: there are none."""
        batch_id, name = self._batch_id, self._name
        if self._held:
            self._link.hold_cursor(batch_id, name)
            self._open = True
            return self.next()
        query = calls.read.open_cursor()
        events = self._link.read(self._events, query, (batch_id, name, self._size))
        self._open = True
        return self._checked(events)

    def next(self) -> list[Event]:
        """Return the next events; empty: there are no more."""
        if not self._open:
            return []
        query = calls.read.fetch(self._name, self._size)
        return self._checked(self._link.read(self._events, query, prepare=False))

    def _checked(self, events: list[Event]) -> list[Event]:
        """Close at the last events, before they are handed out: their handler may roll back."""
        if len(events) < self._size:
            self._open = False
            self._link.close_cursor(self._name)
        return events

    def close(self) -> None:
        """Close the cursor if its reader stopped early."""
        if self._open:
            self._open = False
            self._link.abandon_cursor(self._name, held=self._held)
