"""The duty that puts events back into their queue once their retry time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.ticker.stopping import never

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy import Client


def retry(client: Client, *, stopping: Callable[[], bool] = never) -> int:
    """Move every event whose time has come from the retry queue; return how many.

    Each call moves a bounded number in a transaction of its own, so it is called until nothing
    is left, or until `stopping` says so.
    """
    total = 0
    while not stopping():
        moved = client.maint_retry_events()
        total += moved
        if not moved:
            break
    return total
