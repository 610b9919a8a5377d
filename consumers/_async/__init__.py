"""The consumer for asyncio, and the batch that its handlers get."""

from pgqpy.consumers._async.batch import AsyncOpenBatch
from pgqpy.consumers._async.consumer import AsyncConsumer

__all__ = ["AsyncConsumer", "AsyncOpenBatch"]
