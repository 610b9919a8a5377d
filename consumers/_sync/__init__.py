"""[Generated from _async/__init__.py by tools/unasync.py: edit that file, not this one.] The consumers for asyncio, and what their handlers get."""

from pgqpy.consumers._sync.batch import OpenBatch
from pgqpy.consumers._sync.claimed_list import ClaimedList
from pgqpy.consumers._sync.consumer import (
    Consumer,
    RunnableConsumer,
    TransactionalConsumer,
)

__all__ = [
    "ClaimedList",
    "Consumer",
    "OpenBatch",
    "RunnableConsumer",
    "TransactionalConsumer",
]
