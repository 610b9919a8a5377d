"""The pages of the dashboard, in the order of the menu."""

from pgqpy.dashboard.pages.changes import CHANGES
from pgqpy.dashboard.pages.consumer import CONSUMER
from pgqpy.dashboard.pages.cron import CRON
from pgqpy.dashboard.pages.dead import DEAD
from pgqpy.dashboard.pages.events import EVENTS, FOLLOW
from pgqpy.dashboard.pages.overview import OVERVIEW
from pgqpy.dashboard.pages.queue import CHANGE_QUEUE, QUEUE
from pgqpy.dashboard.pages.readers import READERS
from pgqpy.dashboard.pages.seek import SEEK
from pgqpy.dashboard.pages.tickers import TICKERS

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
