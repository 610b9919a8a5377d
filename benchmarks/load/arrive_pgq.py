"""A consumer of python3-pgq that notes when events arrive. For Debian's own Python."""

from __future__ import annotations

import sys
from typing import Any

import pgq  # Debian's package, in Debian's Python

from benchmarks.load.arrivals import Arrivals

ARRIVALS = Arrivals()


class Noting(pgq.Consumer):  # type: ignore[misc]  # as above
    """The framework's consumer with its default settings."""

    def process_event(self, _cursor: Any, event: Any) -> None:
        """Note it."""
        ARRIVALS.arrived(event.ev_data)


if __name__ == "__main__":
    Noting("noting", "db", sys.argv[1:]).start()
