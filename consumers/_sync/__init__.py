"""[Generated from _async/__init__.py by tools/unasync.py: edit that file, not this one.] The consumer for asyncio, and the batch that its handlers get."""

from pgqpy.consumers._sync.batch import OpenBatch
from pgqpy.consumers._sync.consumer import Consumer

__all__ = ["Consumer", "OpenBatch"]
