"""Consumers that applications subclass, and the types of what their handlers get and raise."""

from pgqpy.consumers._async_batch import AsyncOpenBatch
from pgqpy.consumers._async_consumer import AsyncConsumer
from pgqpy.consumers._sync_batch import OpenBatch
from pgqpy.consumers._sync_consumer import Consumer
from pgqpy.consumers.definition import ConsumerSettings
from pgqpy.consumers.retry import Retry

__all__ = [
    "AsyncConsumer",
    "AsyncOpenBatch",
    "Consumer",
    "ConsumerSettings",
    "OpenBatch",
    "Retry",
]
