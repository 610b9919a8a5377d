"""Records of shared consumers: events in flight, holders of claims, waiting keys, kept events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime, timedelta


STATES = ("fresh", "returned", "claimed", "delayed", "waiting", "in_pieces")  # in flight


class InflightInfo(NamedTuple):
    """The settings of a shared consumer, and its events in flight, from `get_inflight`.

    Attributes:
        order_key: the field that orders its events; None: no order.
        lag: how long there have been new events, and the front has not moved.
        fresh: claimable, and never claimed before.
        returned: claimable: returned, or promoted after an earlier event of their key.
        waiting: behind others of their key.
        in_pieces: of large ranges, not read yet: an estimate that is not too small.
        oldest: the age of the first claimable event; None: there is none.
        oldest_claim: the age of the oldest claim; None: there is none.
        suspects: events of which one may have killed a process.
        crashes: the number of claims of a suspect alone that its process did not end.
    """

    queue_name: str
    consumer_name: str
    order_key: str | None
    per_key: int
    limit_in_flight: int | None
    rate: float | None
    lag: timedelta
    fresh: int
    returned: int
    claimed: int
    delayed: int
    waiting: int
    in_pieces: int
    oldest: timedelta | None
    oldest_claim: timedelta | None
    suspects: int
    crashes: int

    @property
    def total(self) -> int:
        """All events in flight."""
        return sum(getattr(self, state) for state in STATES)


class Holder(NamedTuple):
    """A holder of claims of a shared consumer, from `get_holders`.

    Attributes:
        holder: its number; None: all claims without a holder, each with a lease of its own.
        name: host:pid.
        lease_until: the end of its lease; of claims without a holder, the last end.
        events: the number of events that it has claimed.
        oldest_claim: the age of its oldest claim; None: it has none.
    """

    queue_name: str
    consumer_name: str
    holder: int | None
    name: str | None
    since: datetime | None
    lease_until: datetime
    events: int
    oldest_claim: timedelta | None


class WaitingKey(NamedTuple):
    """A key of a shared consumer whose events wait behind the first one, from `get_waiting_keys`.

    Attributes:
        waiting: the number of events that wait.
        first_id: the first event of the key in flight.
        first_time: when it was inserted.
        first_state: claimed, delayed or claimable.
        first_attempts: how often it was claimed.
        first_due: when its lease or its delay ends; None: it has neither.
    """

    key: str
    waiting: int
    first_id: int
    first_time: datetime
    first_state: str
    first_attempts: int
    first_due: datetime | None


class KeptEvent(NamedTuple):
    """An event that `finish_event` kept, from `get_kept_events`."""

    kept_at: datetime
    ev_id: int
    ev_time: datetime
    ev_txid: int
    ev_retry: int | None
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None


class WaitingEvent(NamedTuple):
    """An event of a shared consumer that comes again later, from `get_waiting_events`.

    Attributes:
        state: retrying; or parked: it keeps its key, or waits behind one that does.
        key: of a parked one.
        due: None: it waits.
        ev_retry: how often it was claimed.
    """

    state: str
    key: str | None
    due: datetime | None
    ev_retry: int
    ev_id: int
    ev_time: datetime
    ev_type: str | None
    ev_data: str | None
    ev_extra1: str | None
    ev_extra2: str | None
    ev_extra3: str | None
    ev_extra4: str | None
