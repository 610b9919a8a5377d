"""Consumers that applications subclass, and the types of what their handlers get and raise."""

from pgqpy.consumers._async import AsyncConsumer, AsyncOpenBatch
from pgqpy.consumers._sync import Consumer, OpenBatch
from pgqpy.consumers.retry import Retry
from pgqpy.consumers.settings import ConsumerSettings

__all__ = ["AsyncConsumer", "AsyncOpenBatch", "Consumer", "ConsumerSettings", "OpenBatch", "Retry"]
