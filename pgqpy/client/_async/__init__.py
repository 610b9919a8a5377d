"""The client for asyncio, and how pgqpy itself opens connections."""

from pgqpy.client._async.client import AsyncClient, connect_as_tool_async, connect_async
from pgqpy.client._async.messages import AsyncMessage
from pgqpy.client._async.open import open_session_async
from pgqpy.client._async.receiver import AsyncReceiver

__all__ = [
    "AsyncClient",
    "AsyncMessage",
    "AsyncReceiver",
    "connect_as_tool_async",
    "connect_async",
    "open_session_async",
]
