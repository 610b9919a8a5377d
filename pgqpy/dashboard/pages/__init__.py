"""The pages of the dashboard, in the order of the menu."""

from pgqpy.dashboard.pages.consumer import CONSUMER, DEAD, SEEK
from pgqpy.dashboard.pages.overview import CHANGES, CRON, OVERVIEW, READERS, TICKERS
from pgqpy.dashboard.pages.queue import CHANGE_QUEUE, EVENTS, FOLLOW, QUEUE

PAGES = (
    OVERVIEW,
    QUEUE,
    CHANGE_QUEUE,
    CONSUMER,
    SEEK,
    DEAD,
    EVENTS,
    FOLLOW,
    CRON,
    READERS,
    TICKERS,
    CHANGES,
)

__all__ = ["PAGES"]
