"""[Generated from _async/read.py by tools/unasync.py: edit that file, not this one.] The part of the client that reads batches, in bounded memory."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._sync.base import Base

if TYPE_CHECKING:
    from collections import abc

    from pgqpy.records import Batch, Event


class Reading(Base):
    """Reads batches."""

    def get_batch_events(
        self, batch: Batch | int, *, fetch_size: int = calls.read.FETCH_SIZE
    ) -> abc.Iterator[Event]:
        """Iterate over the events of a batch, by id, holding `fetch_size` of them at a time.

        A small batch is one SELECT. A large one is read through a cursor: inside a transaction
        PGQ's get_batch_cursor, so read it before the transaction ends; in autocommit a cursor WITH
        HOLD, so that no transaction stays open while the caller works on the events. The cursor is
        closed when the iterator is. Behind a pooler of transactions, read inside one. PGQ
        get_batch_events.

        Raises:
            BatchNotFound: no such batch is open.

            for event in client.get_batch_events(batch):
                print(event.id, event.type, event.json())
        """
        with closing(self.fetch_batch_events(batch, fetch_size)) as fetched:
            for events in fetched:
                for event in events:
                    yield event

    def fetch_batch_events(
        self, batch: Batch | int, fetch_size: int
    ) -> abc.Generator[list[Event], None, None]:
        """Iterate over the same events as lists of at most `fetch_size`, which is faster.

        Close it if you stop early.
        """
        size, batch_id = calls.read.fetch_size(fetch_size), calls.batch_id(batch)
        runner, first = self.runner, None
        wanted = calls.read.of_batch(batch_id)
        if calls.read.fits(batch, size):
            # The ticks only estimate the number of events. If there are more, a cursor reads all.
            query = calls.read.select_at_most(size + 1)
            events = runner.read(wanted, query, wanted.params)
            if len(events) <= size:
                yield events
                return
        name, held = calls.read.cursor_name(batch_id), runner.alone()
        if held:
            runner.hold_cursor(batch_id, name)
        else:
            first = runner.read(wanted, calls.read.OPEN_CURSOR, (batch_id, name, size))
        with closing(runner.fetch(wanted, name, size, first, held=held)) as lists:
            for some in lists:
                yield some
