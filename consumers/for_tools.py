"""What tools use of consumers: session, running lock, connections of handlers, the base class."""

from __future__ import annotations

from pgqpy.consumers._async.consumer import AsyncRunnableConsumer
from pgqpy.consumers._async.handler_connection import AsyncLentConnection
from pgqpy.consumers._sync.consumer import RunnableConsumer
from pgqpy.consumers._sync.handler_connection import HandlerConnection, LentConnection
from pgqpy.consumers._sync.lock import RunningLock
from pgqpy.consumers._sync.session import Session
from pgqpy.consumers.connections import is_collision, is_loss
from pgqpy.consumers.waiting import Wakeup, take_notifications

__all__ = [
    "AsyncLentConnection",
    "AsyncRunnableConsumer",
    "HandlerConnection",
    "LentConnection",
    "RunnableConsumer",
    "RunningLock",
    "Session",
    "Wakeup",
    "is_collision",
    "is_loss",
    "take_notifications",
]
