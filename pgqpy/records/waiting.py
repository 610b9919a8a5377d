"""Records of events that wait: delayed and parked ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class DelayedEvent(NamedTuple):
    """An event that waits: when it is due, and when and by which transaction it was inserted."""

    ev_deliver_at: datetime
    ev_id: int
    ev_time: datetime
    ev_txid: int
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None


class RetryCount(NamedTuple):
    """How many events of a consumer wait in the retry queue until a time, from `get_retry_counts`.

    `due_within` is 0 for events that are due, and None for those that are due in more than a day.
    """

    due_within: timedelta | None
    retry_events: int


class DelayedCount(NamedTuple):
    """How many delayed events a queue has, and for how long the first one has been due.

    `overdue` is None if nothing is due. It is a fraction of a second while a ticker runs.
    """

    queue_name: str
    delayed_events: int
    overdue: timedelta | None


class DelayedMoves(NamedTuple):
    """The result of `move_delayed_events`: events moved, and how long until the next are due.

    `next_delayed` is 0 if more events are due than the call could move.
    """

    moved: int
    next_delayed: timedelta | None
    next_retry: timedelta | None


class ParkedKey(NamedTuple):
    """A parked key: its first event, why that failed, and how many events wait with it.

    `park_error` is None if the event waited for others that are done, and is next.
    """

    park_key: str
    events: int
    park_since: datetime
    park_after: datetime
    park_error: str | None
    park_reason: str | None
    ev_id: int
    ev_time: datetime
    ev_retry: int | None
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None
