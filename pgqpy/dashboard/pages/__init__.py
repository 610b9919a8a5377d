"""The pages of the dashboard, in the order of the menu."""

from pgqpy.dashboard.pages.consumer import CONSUMER
from pgqpy.dashboard.pages.cron import CRON
from pgqpy.dashboard.pages.dead import DEAD
from pgqpy.dashboard.pages.events import EVENTS
from pgqpy.dashboard.pages.overview import OVERVIEW
from pgqpy.dashboard.pages.queue import QUEUE
from pgqpy.dashboard.pages.tickers import TICKERS

PAGES = (OVERVIEW, QUEUE, CONSUMER, DEAD, EVENTS, CRON, TICKERS)

__all__ = ["PAGES"]
