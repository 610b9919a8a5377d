"""The client: a method for each SQL function that applications and operators call."""

from pgqpy.client._async import AsyncClient, connect_async
from pgqpy.client._sync import Client, connect

__all__ = ["AsyncClient", "Client", "connect", "connect_async"]
