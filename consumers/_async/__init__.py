"""The consumers for asyncio, and what their handlers get."""

from pgqpy.consumers._async.batch import AsyncOpenBatch
from pgqpy.consumers._async.claimed_list import AsyncClaimedList
from pgqpy.consumers._async.consumer import (
    AsyncConsumer,
    AsyncRunnableConsumer,
    AsyncTransactionalConsumer,
)

__all__ = [
    "AsyncClaimedList",
    "AsyncConsumer",
    "AsyncOpenBatch",
    "AsyncRunnableConsumer",
    "AsyncTransactionalConsumer",
]
