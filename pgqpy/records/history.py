"""Records of what happened: the history of a queue, and who changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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


class Change(NamedTuple):
    """A change that a program noted by `begin_change`, from `get_changes`.

    Attributes:
        login: the login of the database.
        user: the user of the program.
        action: what was done.
        arguments: with which arguments; a dict of JSON values.
        end_time: when it ended; None, as `outcome`: it has not ended, or the program died.
        outcome: how it ended.
    """

    id: int
    time: datetime
    login: str
    user: str | None
    action: str
    queue: str | None
    consumer: str | None
    arguments: dict[str, Any] | None
    end_time: datetime | None
    outcome: str | None
