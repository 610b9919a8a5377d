"""Consumers that applications subclass, and the types of what their handlers get and raise."""

from pgqpy.consumers._async import AsyncConsumer, AsyncOpenBatch, AsyncTransactionalConsumer
from pgqpy.consumers._sync import Consumer, OpenBatch, TransactionalConsumer
from pgqpy.consumers.retry import Retry
from pgqpy.consumers.settings import BaseConsumer, ConsumerSettings

__all__ = [
    "AsyncConsumer",
    "AsyncOpenBatch",
    "AsyncTransactionalConsumer",
    "BaseConsumer",
    "Consumer",
    "ConsumerSettings",
    "OpenBatch",
    "Retry",
    "TransactionalConsumer",
]
