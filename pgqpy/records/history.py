"""Records of what happened: the history of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class HistoryPoint(NamedTuple):
    """A queue, or one of its consumers, at one moment of the history, from `get_history`.

    Attributes:
        events_per_second: inserted since the point before; None in the first.
        lag: the age of the last finished tick, 0 while no event is pending; of a queue, that of
            its slowest consumer. This and the rest are None where there was no consumer.
        pending_events: after the position; of a queue, the most of a consumer.
        retry_events: in the retry queue, counted up to 10,000 for each consumer.
        dead_events: counted as these.
        parked_events: counted as these.
    """

    time: datetime
    events_per_second: float | None
    lag: timedelta | None
    pending_events: int | None
    retry_events: int | None
    dead_events: int | None
    parked_events: int | None
