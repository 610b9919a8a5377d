"""Consumers that applications subclass, and the types of what their handlers get and raise."""

from pgqpy.consumers._async import (
    AsyncClaimedList,
    AsyncConsumer,
    AsyncOpenBatch,
    AsyncTransactionalConsumer,
)
from pgqpy.consumers._sync import ClaimedList, Consumer, OpenBatch, TransactionalConsumer
from pgqpy.consumers.retry import Retry
from pgqpy.consumers.settings import BaseConsumer, ConsumerSettings

__all__ = [
    "AsyncClaimedList",
    "AsyncConsumer",
    "AsyncOpenBatch",
    "AsyncTransactionalConsumer",
    "BaseConsumer",
    "ClaimedList",
    "Consumer",
    "ConsumerSettings",
    "OpenBatch",
    "Retry",
    "TransactionalConsumer",
]
