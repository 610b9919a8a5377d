"""Reading an open batch part by part, for handlers whose effects are kept with each part."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.records import Batch, Event


class AsyncPartReader:
    """Reads parts of about `size` events, outside of transactions. Memory holds two parts.

    The next part is read before the one at hand is handled: its first id tells whether a part may
    end there. An event and its retried copy, which has the same id, stay together.
    """

    def __init__(self, session: AsyncSession, info: Batch, size: int) -> None:
        self.info = info
        self.size = size
        self.last = False  # the part that `next` returned is the end of the batch
        self._session = session
        self._lists = session.runner.fetch_batch_events(info, size)
        self._ahead: list[Event] | None = None

    async def next(self) -> list[Event]:
        """Return the next part; it is empty only in a batch without events."""
        read, lists = self._session.next_list, self._lists
        events = await read(lists) if self._ahead is None else self._ahead
        ahead = await read(lists)
        while ahead and ahead[0].id == events[-1].id:
            events += ahead
            ahead = await read(lists)
        self._ahead, self.last = ahead, not ahead
        return events

    async def aclose(self) -> None:
        """Close the cursor."""
        await self._lists.aclose()
