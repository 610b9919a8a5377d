"""Reviving or deleting many dead events: in short transactions with pauses, in the background."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.errors import InvalidArgument
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pgqpy.dashboard.database import Asked, Database

EVENTS = 1000  # of one transaction
logger = logging.getLogger(__name__)


@dataclass
class Job:
    """All dead events of a consumer that match, and died before a time: those of the click."""

    change: int  # the id in the audit
    function: str
    queue: str
    consumer: str
    type: str | None
    error: str | None
    until: datetime
    done: int = 0
    stopped: bool = field(default=False)

    @property
    def verb(self) -> str:
        """What happened to the events."""
        return "revived" if self.function.startswith("revive") else "deleted"


class Jobs:
    """Runs one job at a time. It ends with the dashboard; the same click continues."""

    def __init__(self, database: Database) -> None:
        """Use the sessions of operators."""
        self._database = database
        self._task: asyncio.Task[None] | None = None
        self._begins = False
        self.current: Job | None = None

    async def begin(self, note: Callable[[Asked], Job]) -> None:
        """Begin the job that `note` writes into the audit. InvalidArgument while another one runs.

        The job's place is taken before `note` waits for the database. So of two clicks at the same
        time one is refused, and nothing is noted for it.
        """
        if self._begins or self.current is not None:
            raise InvalidArgument("dead events are being changed already: wait, or stop that first")
        self._begins = True
        try:
            self.current = await self._database.run(note)
        finally:
            self._begins = False
        self._task = asyncio.create_task(self._run(self.current))

    def stop(self) -> None:
        """Let the job end after its transaction."""
        if self.current is not None:
            self.current.stopped = True

    async def close(self) -> None:
        """Stop the job and wait for its end."""
        self.stop()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, job: Job) -> None:
        try:
            outcome = await self._all(job)
        except Exception as exc:  # noqa: BLE001  # the audit tells what happened
            outcome = f"{job.verb} {job.done} dead event(s), then failed: {describe(exc)}"
            logger.warning("change %s: %s", job.change, outcome)
        finally:
            self.current = None
        try:
            await self._database.run(
                lambda asked: asked.client.call(calls.history.end_change(job.change, outcome))
            )
        except Exception as exc:  # noqa: BLE001  # as above
            logger.error("the end of change %s is not noted: %s", job.change, describe(exc))  # noqa: TRY400  # one line
        self._database.close()  # maybe nobody looks any more

    async def _all(self, job: Job) -> str:
        after: int | None = None

        def some(asked: Asked) -> list[int]:
            change = getattr(asked.client, job.function)
            ids: list[int] = change(
                job.queue,
                job.consumer,
                type=job.type,
                error=job.error,
                until=job.until,
                after=after,
                limit=EVENTS,
            )
            return ids

        while not job.stopped:
            began = time.monotonic()
            ids = await self._database.run(some)
            job.done += len(ids)
            if len(ids) < EVENTS:
                return f"{job.verb} {job.done} dead event(s)"
            after = ids[-1]
            await asyncio.sleep(time.monotonic() - began)  # half of the time is for the others
        return f"{job.verb} {job.done} dead event(s), then stopped"
