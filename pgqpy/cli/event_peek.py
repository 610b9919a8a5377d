"""Events read without a subscription, for ``pgqpy event peek`` and ``event tail``."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import click
from psycopg import sql

from pgqpy.cli import queries
from pgqpy.errors import CorruptQueue, PgqError, RangeExpired, TickNotFound

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from pgqpy import Client, Event
    from pgqpy.records import TickInfo

POLL_INTERVAL = 1.0  # seconds; a tick notifies, unless the notification queue is full
REMEMBERED = 100_000  # event ids, so that no event is shown twice after a compaction


def oldest(client: Client, queue: str, limit: int) -> Iterator[Event]:
    """Yield the oldest events of the queue, at most `limit`. The caller must exhaust it."""
    with client.transaction():  # its locks prevent a compaction of the ticks
        ticks, at = _ticks(client, queue), 0
        first = ticks[0].tick_id
        yield from client.get_tick_events(queue, first, first)  # empty; checks the rights
        while limit > 0 and at < len(ticks) - 1:
            start = at
            while (
                at < len(ticks) - 1
                and ticks[at].tick_event_seq - ticks[start].tick_event_seq < limit
            ):
                at += 1
            events = client.get_tick_events(queue, ticks[start].tick_id, ticks[at].tick_id)
            for event in islice(events, limit):
                limit -= 1
                yield event


def newest(client: Client, queue: str, limit: int) -> tuple[list[Event], int]:
    """Return the newest events before the last tick, at most `limit`, and the tick's id."""
    with client.transaction():  # as above
        ticks = _ticks(client, queue)
        at, last = len(ticks) - 1, ticks[-1].tick_id
        found = list(client.get_tick_events(queue, last, last))  # empty; checks the rights
        while len(found) < limit and at > 0:
            end, wanted = at, limit - len(found)
            while at > 0 and ticks[end].tick_event_seq - ticks[at].tick_event_seq < wanted:
                at -= 1
            events = client.get_tick_events(queue, ticks[at].tick_id, ticks[end].tick_id)
            found = [*deque(events, maxlen=wanted), *found]
    return found, last


def following(
    client: Client, queue: str, tick_id: int, shown_before: Iterable[Event]
) -> Generator[Event, None, None]:
    """Yield the events after a tick, without end, as new ticks come."""
    channel = sql.Identifier(f"pgq_{queue}")
    client.connection.execute(sql.SQL("listen {}").format(channel))
    shown = deque((event.id for event in shown_before), maxlen=REMEMBERED)
    known: frozenset[int] = frozenset()
    while True:
        last = _ticks(client, queue, tick_id)[-1].tick_id
        if last > tick_id:
            try:
                for event in client.get_tick_events(queue, tick_id, last):
                    if event.id not in known:
                        yield event
                        shown.append(event.id)
            except (TickNotFound, RangeExpired) as exc:
                tick_id, known = _tick_left(client, queue, tick_id, exc), frozenset(shown)
                continue
            tick_id, known = last, frozenset()
        for _ in client.connection.notifies(timeout=POLL_INTERVAL, stop_after=1):
            pass


def _tick_left(client: Client, queue: str, tick_id: int, lost: PgqError) -> int:
    """Return the tick to go on after, in place of one that a compaction or a rotation took."""
    if isinstance(lost, RangeExpired) and lost.first_tick is not None:
        text = f"events of queue {queue} after tick {tick_id} were rotated away"
        click.echo(f"{text}: going on after tick {lost.first_tick}", err=True)
        return lost.first_tick
    # A compaction took a tick that nobody refers to, but not all ticks of its second.
    left = client.get_tick_info(queue, None, tick_id)
    return left[-1].tick_id if left else tick_id


def _ticks(client: Client, queue: str, first: int | None = None) -> list[TickInfo]:
    queries.queue_info(client, queue)
    ticks = client.get_tick_info(queue, first)
    if not ticks:
        raise CorruptQueue(f"queue {queue!r} has no tick: pgqpy doctor says more", queue=queue)
    return ticks
