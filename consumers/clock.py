"""A clock that also counts while the machine is suspended."""

from __future__ import annotations

import time

# time.monotonic() stands still meanwhile on Linux: a worker would not notice that it was away.
_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def now() -> float:
    """Return seconds, for differences. Only Linux has the clock; elsewhere it is monotonic()."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
