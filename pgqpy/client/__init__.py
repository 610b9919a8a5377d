"""The client: a method for each SQL function that applications and operators call.

`connect_as_tool` is for pgqpy's own tools, whose sessions run no other SQL. `open_session` is for
consumers and the listener, which choose the class of the connection.
"""

from pgqpy.client._async import (
    AsyncClient,
    AsyncMessage,
    AsyncReceiver,
    connect_as_tool_async,
    connect_async,
    open_session_async,
)
from pgqpy.client._sync import (
    Client,
    Message,
    Receiver,
    connect,
    connect_as_tool,
    open_session,
)

__all__ = [
    "AsyncClient",
    "AsyncMessage",
    "AsyncReceiver",
    "Client",
    "Message",
    "Receiver",
    "connect",
    "connect_as_tool",
    "connect_as_tool_async",
    "connect_async",
    "open_session",
    "open_session_async",
]
