"""The part of the client for parked events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections import abc

    from pgqpy.records import ParkedKey


class AsyncParkedEvents(AsyncBase):
    """Lists, retries and deletes parked events. Needs the role pgq_reader."""

    async def get_parked(
        self,
        queue: str,
        consumer: str,
        keys: abc.Iterable[str] | None = None,
        *,
        limit: int | None = None,
    ) -> list[ParkedKey]:
        """List the parked keys of a consumer with `on_error = "park"`, with their first events.

        The key that waits longest is the first. `keys`: only these. `limit`: at most this many.
        The events of a key are counted up to 10,000. Raises ConsumerNotFound.
        """
        return await self.runner.run(calls.parked.get_parked(queue, consumer, keys, limit))

    async def retry_parked(
        self, queue: str, consumer: str, keys: abc.Iterable[str] | None = None
    ) -> int:
        """Let the first events of parked keys (None: of all) be due now.

        Returns how many were not due before. Raises ConsumerNotFound.
        """
        return await self.runner.run(calls.parked.retry_parked(queue, consumer, keys))

    async def delete_parked(self, queue: str, consumer: str, keys: abc.Iterable[str]) -> list[int]:
        """Delete the first events of parked keys for good; return their ids.

        The next event of each key is due then. An event that a handler may have just now is left
        out. Waits for a transaction that handles events. Raises ConsumerNotFound.
        """
        return await self.runner.run(calls.parked.delete_parked(queue, consumer, keys))
