"""New events as they come, for ``pgqpy event list --follow``: each once, over lost connections."""

from __future__ import annotations

import select
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from psycopg import sql

from pgqpy import browse
from pgqpy.calls import read
from pgqpy.cli.output import say
from pgqpy.client.listening import channel
from pgqpy.consumers.connections import is_loss
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    from pgqpy import Client, Event
    from pgqpy.browse import Cut, Wanted

POLL_INTERVAL = 1.0  # seconds; a tick notifies, unless the notification queue is full
SHORTEST = 0.05  # seconds between two looks, however often the queue is ticked
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two attempts to connect


class Following:
    """Yields the wanted events of a queue after a tick, as new ticks come.

    What was shown is known by snapshots, since compaction removes ticks: everything that `shown`
    sees, and of the range up to `part` the events up to an id.
    """

    def __init__(self, queue: str, shown: Cut, wanted: Wanted) -> None:
        """Begin behind a tick."""
        self.queue, self.wanted, self.shown = queue, wanted, shown
        self.part: tuple[Cut, int, int] | None = None  # and the last event shown: id, txid

    def over(
        self, connect: Callable[[], AbstractContextManager[Client]]
    ) -> Generator[Event, None, None]:
        """Yield events without end; connect again after a lost connection."""
        pause = FIRST_PAUSE
        while True:
            try:
                with connect() as client:
                    for event in self.events(client):
                        pause = FIRST_PAUSE
                        yield event
            except Exception as error:
                if not is_loss(error):
                    raise
                text = f"the connection is lost ({describe(error)}), tries again in {pause:.1f} s"
                say(text)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def events(self, client: Client) -> Generator[Event, None, None]:
        """Yield events over one connection, without end."""
        name = sql.Identifier(channel(self.queue))
        client.connection.execute(sql.SQL("listen {}").format(name))
        while True:
            yield from self._new(client)
            for _ in client.connection.notifies(timeout=POLL_INTERVAL, stop_after=1):
                pass
            for _ in client.connection.notifies(timeout=SHORTEST):
                pass  # of the ticks meanwhile
            if _reader_is_gone():
                raise BrokenPipeError

    def _new(self, client: Client) -> Generator[Event, None, None]:
        """Yield the events up to the last tick. They are copied, so no transaction stays open."""
        name = read.cursor_name(self.shown.tick_id)
        with browse.reading(client):
            last = browse.find_last(client, self.queue)
            if last.tick_id == self.shown.tick_id:
                return
            start = self._start(client, last)
            events, query = browse.select_events(
                client, self.queue, start, last.tick_id, self.wanted
            )
            declare = sql.SQL(
                "declare {} no scroll cursor with hold for {}{} order by ev_id, ev_txid"
            )
            cursor = declare.format(sql.Identifier(name), query, self._not_shown())
            client.runner.read(events, cursor, prepare=False)
        for some in client.runner.fetch(events, name, read.FETCH_SIZE, None, held=True):
            for event in some:
                self.part = (last, event.id, event.txid)
                yield event
        self.shown, self.part = last, None

    def _start(self, client: Client, last: Cut) -> int:
        """Return the tick to read from: the last one, or the one before it that is kept."""
        shown = self.shown.tick_id
        if last.tick_id < shown:  # another server took over, without the last ticks
            self._tell(f"tick {shown} does not exist any more", last)
            self.shown, self.part = last, None
            return last.tick_id
        left = browse.find_tick(client, self.queue, shown)
        if left is not None and left.tick_id == shown and left != self.shown:
            # As above, with as many ticks since; or repair_queue, whose snapshots are new.
            self._tell(f"tick {shown} is another one than before, events may be missing", left)
            self.shown, self.part = left, None
        if left is not None:
            return left.tick_id
        first = browse.find_first(client, self.queue)
        self._tell(f"events after tick {shown} were rotated away", first)
        return first.tick_id

    def _tell(self, text: str, goes_on: Cut) -> None:
        say(f"queue {self.queue}: {text}: going on after tick {goes_on.tick_id}")

    def _not_shown(self) -> sql.Composed:
        seen = sql.SQL(" and {}txid_visible_in_snapshot(ev_txid, {}::txid_snapshot)")
        shown = seen.format(sql.SQL("not "), sql.Literal(self.shown.snapshot))
        if self.part is None:
            return shown
        cut, event_id, txid = self.part
        part = sql.SQL(
            " and not ((ev_id, ev_txid) <= ({}, {})"
            " and txid_visible_in_snapshot(ev_txid, {}::txid_snapshot))"
        )
        return shown + part.format(event_id, txid, sql.Literal(cut.snapshot))


def _reader_is_gone() -> bool:
    """Say whether the other end of the pipe that is stdout was closed."""
    with suppress(OSError, ValueError, AttributeError):  # no file; no poll on this system
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False
