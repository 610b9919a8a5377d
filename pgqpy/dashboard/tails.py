"""The newest events of the queues that somebody follows. Each poll reads what came since the last.

All who follow the same queue with the same filter share a tail. A queue without a new tick is not
read. A tail rests after each poll as the poll of the snapshots does, and for longer the more tails
there are. So all of them together take no more of a core than one would.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from pgqpy import browse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pgqpy import Client, Event
    from pgqpy.browse import Cut

ROWS = 100
TICKS = 1000  # of a first poll, and of one after a long time
EXTRAS = ("extra1", "extra2", "extra3", "extra4")
MOST_DATA, MOST_EXTRA = 4096, 1000  # characters that a page shows
MOST_TAILS = 200  # as many as streams; one more drops the tail that was asked for longest ago
FORGET = 60.0  # seconds after which nobody follows any more: pages ask every ten, or more often
REST = 75.0  # times what a poll took: see pgqpy.watch


class ShownEvent(NamedTuple):
    """An event as pages show it: long texts are cut; `length` is that of the whole data."""

    id: int
    time: datetime
    txid: int
    type: str | None
    data: str
    length: int
    extras: Mapping[str, str]


class Filter(NamedTuple):
    """Which events of a queue: of a type, such as order.*, and with these extras."""

    queue: str
    type: str | None
    extras: tuple[tuple[str, str], ...] = ()

    def wanted(self, since: datetime | None = None) -> browse.Wanted:
        """Return the filter as `browse` takes it."""
        extras = {name: [value] for name, value in self.extras}
        return browse.Wanted((self.type,) if self.type else (), extras, since)


@dataclass
class _Tail:
    lock: Lock = field(default_factory=Lock)
    rows: list[ShownEvent] = field(default_factory=list)  # the oldest first
    last: Cut | None = None  # they came before this tick
    asked: float = 0.0  # by time.monotonic, as the next one
    rests_until: float = 0.0
    failure: Exception | None = None  # of the last poll


class Tails:
    """The tails of one dashboard."""

    def __init__(self) -> None:
        """Begin without one."""
        self._lock = Lock()
        self._tails: dict[Filter, _Tail] = {}

    def clear(self) -> None:
        """Forget all: nobody asks any more."""
        with self._lock:
            self._tails = {}

    def newest(self, client: Client, wanted: Filter, last_tick: int | None) -> list[ShownEvent]:
        """Return the newest events, the newest first. `last_tick`: that of the queue, if known.

        Raises QueueNotFound, and InsufficientPrivilege if the session may not read events.
        """
        tail, count = self._tail(wanted)
        with tail.lock:
            is_new = tail.last is None or last_tick is None or tail.last.tick_id != last_tick
            if is_new and time.monotonic() >= tail.rests_until:
                began = time.monotonic()
                try:
                    _poll(client, wanted, tail)
                    tail.failure = None
                except Exception as exc:  # noqa: BLE001  # raised below, to all who ask meanwhile
                    tail.failure = exc
                ended = time.monotonic()
                tail.rests_until = ended + REST * count * (ended - began)
            if tail.failure is not None:
                raise tail.failure
            return tail.rows[::-1]

    def _tail(self, wanted: Filter) -> tuple[_Tail, int]:
        """Return a tail, and how many there are; forget those that nobody asks for."""
        now = time.monotonic()
        with self._lock:
            tail = self._tails.pop(wanted, None) or _Tail()
            tail.asked = now
            used = [(key, each) for key, each in self._tails.items() if now - each.asked < FORGET]
            self._tails = {**dict(used[1 - MOST_TAILS :]), wanted: tail}  # the latest is the last
            return tail, len(self._tails)


def _poll(client: Client, wanted: Filter, tail: _Tail) -> None:
    """Add the events since the tail's tick; begin anew if that tick is another one, or long ago."""
    with browse.reading(client):
        after = None
        if tail.last is not None:
            newest = browse.find_last(client, wanted.queue).tick_id
            kept = browse.find_tick(client, wanted.queue, tail.last.tick_id)
            if kept == tail.last and newest - kept.tick_id <= TICKS:
                after = kept.tick_id
        events, last = browse.newest(
            client, wanted.queue, ROWS, wanted.wanted(), ticks=TICKS, after=after
        )
    rows = [] if after is None else tail.rows
    tail.rows, tail.last = [*rows, *map(shown, events)][-ROWS:], last


def shown(event: Event) -> ShownEvent:
    """Return an event as pages show it."""
    data = event.data or ""
    extras = {name: getattr(event, name) for name in EXTRAS}
    return ShownEvent(
        event.id,
        event.time,
        event.txid,
        event.type,
        data[:MOST_DATA],
        len(data),
        {name: value[:MOST_EXTRA] for name, value in extras.items() if value is not None},
    )
