"""The lag of a consumer as people are shown it, on the dashboard and in the commands."""

from __future__ import annotations

from datetime import timedelta


def shown_lag(lag: timedelta | None, pending_events: int | None) -> timedelta | None:
    """Return the age of the last finished tick, 0 while no event is pending.

    The age itself, which `get_consumer_info` and the metrics have, grows on an idle queue too.
    """
    return timedelta(0) if pending_events == 0 else lag
