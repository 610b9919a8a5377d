"""Consumers that applications subclass: `Consumer`, `AsyncConsumer`, and `Retry` for handlers."""

from pgqpy.consumers._async_consumer import AsyncConsumer
from pgqpy.consumers._sync_consumer import Consumer
from pgqpy.consumers.retry import Retry

__all__ = ["AsyncConsumer", "Consumer", "Retry"]
