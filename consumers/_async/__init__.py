"""The consumers for asyncio, and the batch that their handlers get."""

from pgqpy.consumers._async.batch import AsyncOpenBatch
from pgqpy.consumers._async.consumer import (
    AsyncConsumer,
    AsyncRunnableConsumer,
    AsyncTransactionalConsumer,
)

__all__ = ["AsyncConsumer", "AsyncOpenBatch", "AsyncRunnableConsumer", "AsyncTransactionalConsumer"]
