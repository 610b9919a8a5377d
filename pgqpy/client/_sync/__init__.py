"""[Generated from _async/__init__.py by tools/unasync.py: edit that file, not this one.] The client for asyncio, and how pgqpy itself opens connections."""

from pgqpy.client._sync.client import Client, connect_as_tool, connect
from pgqpy.client._sync.messages import Message
from pgqpy.client._sync.open import open_session
from pgqpy.client._sync.receiver import Receiver

__all__ = [
    "Client",
    "Message",
    "Receiver",
    "connect_as_tool",
    "connect",
    "open_session",
]
