"""The ticker daemon: it ticks, moves retries, rotates, and cleans up."""

from pgqpy.ticker.daemon import Ticker, run
from pgqpy.ticker.settings import TickerSettings

__all__ = ["Ticker", "TickerSettings", "run"]
