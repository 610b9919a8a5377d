"""The client: every SQL function of the queue as a method of the same name."""

from pgqpy.client._async import AsyncClient, connect_async
from pgqpy.client._sync import Client, connect

__all__ = ["AsyncClient", "Client", "connect", "connect_async"]
