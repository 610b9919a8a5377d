"""The duty that puts events back into their queue once their retry time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg

from pgqpy.ticker.stopping import never

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.errors import Diagnostic

    from pgqpy import Client


class Retried(NamedTuple):
    """What was moved out of the retry queue."""

    moved: int
    failures: tuple[tuple[str, psycopg.Error], ...]  # by queue: its events stay


def retry(client: Client, *, stopping: Callable[[], bool] = never) -> Retried:
    """Move every event whose time has come from the retry queue.

    Each call moves a bounded number in a transaction of its own, so it is called until nothing
    is left, or until `stopping` says so. The server tells of a queue that fails in a WARNING.
    """
    total, failures = 0, {}

    def note(warning: Diagnostic) -> None:
        error = psycopg.Error(warning.message_primary or "")
        error.sqlstate = warning.sqlstate
        failures[(warning.message_detail or "").removeprefix("queue ")] = error

    client.connection.add_notice_handler(note)
    try:
        while not stopping():
            moved = client.maint_retry_events()
            total += moved
            if not moved:
                break
    finally:
        client.connection.remove_notice_handler(note)
    return Retried(total, tuple(failures.items()))
