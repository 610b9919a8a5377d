"""The loop for at-least-once delivery: no transaction is open while handlers run."""

from __future__ import annotations

import math
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pgqpy.calls import consume
from pgqpy.consumers._async.batch import AsyncPartReader
from pgqpy.consumers._async.loop import AsyncLoop
from pgqpy.consumers._async.session import NO_DISK_WAIT
from pgqpy.consumers.connections import EVENT_NOT_FOUND
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.parts import list_size
from pgqpy.errors import BatchLost, PgqError

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers._async.batch import AsyncOpenBatch
    from pgqpy.records import Batch, Event


# process_event never sees a batch's id or ticks. So a batch is opened without waiting for the disk,
# and its events are delivered sooner: should the server crash before the position is written, they
# are delivered again in another batch. finish_batch waits for the disk, and with it for everything
# before. process_batch may store ids and ticks elsewhere: so both opening and finishing wait.
OPEN_SETTINGS = (NO_DISK_WAIT,)


class AsyncAtLeastOnceLoop(AsyncLoop):
    """Opens a batch, calls the handler for its events, finishes it, opens the next."""

    async def run(self) -> None:
        """Work until `stop`; the open batch is then finished only if all of it was handled."""
        if self.by_event:
            self.open_settings = OPEN_SETTINGS
        _, found = await self.open_next()
        while not self.stop.is_set:
            if found is None:
                await self.wait()
                _, found = await self.open_next()
            else:
                found = await self._process(found)

    async def _process(self, info: Batch) -> Batch | None:
        """Process and finish a batch; return the next one, None if there is none or at `stop`."""
        try:
            handled = await self._process_parts(info)
            raise_if_cancelled()
            if handled:
                return await self._finish_and_open_next(self.current)
            if self.stop.is_set:
                return None
        except PgqError as error:
            if error.sqlstate == EVENT_NOT_FOUND:
                await self.event_not_in_batch(info, error)
            elif not await self.is_batch_lost(info, error):
                raise
        except HandlerFailed as failure:
            if self.by_event or self.wants_stop(failure.error):
                raise
            await self.back_off(info, failure.error)
        _, found = await self.open_next()
        return found

    async def _process_parts(self, info: Batch) -> bool:
        """Handle one part after the other, and finish all but the last; False at `stop`."""
        if self.attempts.size == math.inf and not self.by_event:
            return await self.handle_batch(self.make_batch(info))
        handle = self._handle_by_event if self.by_event else self._handle_as_list
        while not self.stop.is_set:
            size = self.attempts.size
            at_once = list_size(size) if self.by_event else int(size)
            async with aclosing(AsyncPartReader(self.session, info, at_once)) as reader:
                while size == self.attempts.size:
                    last_id = await handle(info, reader)
                    if last_id is None or reader.last:
                        return last_id is not None
                    await self._finish_part(last_id)
        return False

    async def _handle_as_list(self, info: Batch, reader: AsyncPartReader) -> int | None:
        """Call process_batch for the next part; return its last id, None at `stop`."""
        if self.stop.is_set:
            return None
        events = await reader.next()
        part = self.make_batch(info, events)
        if self.bury_killer(part, events) or await self.handle_batch(part):
            return events[-1].id if events else 0
        return None

    async def _handle_by_event(self, info: Batch, reader: AsyncPartReader) -> int | None:
        """Call process_event for the next part; return its last id, None at `stop`.

        At `stop` the events handled by then are finished.
        """
        part, last_id = self.make_batch(info), 0
        while not self.stop.is_set:
            events = await reader.next()
            part.note(events)
            handled = len(events)
            if not self.bury_killer(part, events):
                handled = await self._call_handlers(part, events)
            if handled < len(events):
                part.size -= len(events) - handled
                following = events[handled].id
                done = [event.id for event in events[:handled] if event.id != following]
                last_id = done[-1] if done else last_id
                break
            last_id = events[-1].id if events else 0
            if reader.last or part.size >= self.attempts.size:
                return last_id
            if part.failures.full:
                await part.failures.flush()
        if last_id and self.attempts.size < math.inf:
            await self._finish_part(last_id)
        return None

    async def _call_handlers(self, part: AsyncOpenBatch, events: list[Event]) -> int:
        """Call the handler for each event until `stop`; return how many were handled."""
        # The path of every event: local names, no call but the handler's.
        handle, stop, calls = self.process_event, self.stop, self.session.calls
        for event in events:
            if calls.may_have_ended:
                await self.session.check_session()
            if stop.is_set:
                return events.index(event)
            self.event = event
            try:
                result = await handle(event)
                if result is not None:
                    check_result(result)
            except HANDLER_ERRORS as error:
                raise_if_cancelled(error)
                if self.wants_stop(error):
                    raise HandlerFailed(error) from error
                part.failures.judge(event, error)
        return len(events)

    async def _finish_part(self, up_to: int) -> None:
        """Write the failures, and finish the part of the batch that ends with this event id."""
        part = self.current
        finish = consume.finish_part(part.info, up_to, attempts=self.attempts.after_part())
        if not (await self.send(*part.failures.take(), finish))[-1]:
            raise BatchLost(batch_id=part.info.id)
        self.finished(part, whole=False)

    async def _finish_and_open_next(self, batch: AsyncOpenBatch) -> Batch | None:
        """Write the failures, finish the batch and open the next one, in one round trip."""
        wanted = [*batch.failures.take(), consume.finish_batch(batch.info)]
        found: Batch | None = None
        if self.stop.is_set:
            results = await self.send(*wanted)
        else:
            results, found = await self.open_next(*wanted)
        if results[-1]:
            self.finished(batch, whole=True)
        else:
            await self.is_batch_lost(batch.info, BatchLost(batch_id=batch.info.id))
        return found

    async def send(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls as one transaction; repeat it if it collides with another one."""
        return await self.session.send_again(self.stop, *wanted)
