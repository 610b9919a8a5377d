"""Run the daemon as a process, with exit codes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pgqpy.errors import ConnectionFailed
from pgqpy.ticker.daemon import Ticker
from pgqpy.ticker.web import CannotListen, address

if TYPE_CHECKING:
    from pgqpy.settings import TickerSettings

FINE, FAILED, WRONG_USAGE = 0, 1, 2


def run(settings: TickerSettings) -> int:
    """Run the daemon until SIGTERM or SIGINT; return the process's exit code.

    0: stopped as asked; 1: the HTTP address cannot be had; 2: a connection string cannot be
    parsed. A database that does not answer is no failure: it is tried again.
    """
    try:
        ticker = Ticker(settings)
        code = ticker.run()
    except ConnectionFailed as exc:
        print(f"pgqpy ticker: {exc}", file=sys.stderr)  # noqa: T201  # before there is a log
        return WRONG_USAGE
    except CannotListen as exc:
        where = address(settings.http_host, settings.http_port or 0)
        print(f"pgqpy ticker: cannot listen on {where}: {exc.strerror}", file=sys.stderr)  # noqa: T201  # as above
        return FAILED
    if ticker.hangs:
        # A call to a server that does not answer holds a thread. The interpreter's own way out
        # would wait for it, or end it where it holds locks of libpq: with all said, go at once.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code
