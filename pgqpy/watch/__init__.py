"""The state of a database at a glance: what dashboard and ``pgqpy top`` show."""

from pgqpy.watch.snapshot import (
    ConsumerState,
    Count,
    DeadEvents,
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
    "DeadEvents",
    "NoAnswer",
    "QueueState",
    "Snapshot",
    "TickState",
    "TickerDaemon",
    "Watcher",
]
