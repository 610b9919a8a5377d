"""The ticker daemon: it ticks, moves retries, rotates, and cleans up."""

from pgqpy.ticker.daemon import Ticker, run

__all__ = ["Ticker", "run"]
