"""The state of a database, as the dashboard and ``pgqpy top`` show it."""

from pgqpy.watch.snapshot import (
    ConsumerState,
    Count,
    NoAnswer,
    QueueState,
    Snapshot,
    TickerDaemon,
    TickState,
)
from pgqpy.watch.watcher import Watcher

__all__ = [
    "ConsumerState",
    "Count",
    "NoAnswer",
    "QueueState",
    "Snapshot",
    "TickState",
    "TickerDaemon",
    "Watcher",
]
