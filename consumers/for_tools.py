"""The session and the running lock of a consumer, for tools that read ranges of ticks as one."""

from __future__ import annotations

from pgqpy.consumers._sync.lock import RunningLock
from pgqpy.consumers._sync.session import Session
from pgqpy.consumers.connections import is_collision, is_loss
from pgqpy.consumers.waiting import Wakeup, take_notifications

__all__ = ["RunningLock", "Session", "Wakeup", "is_collision", "is_loss", "take_notifications"]
