"""The ticker daemon: it ticks, moves retries, rotates, and cleans up."""

from pgqpy.ticker.daemon import Ticker
from pgqpy.ticker.main import run

__all__ = ["Ticker", "run"]
