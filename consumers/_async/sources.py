"""The sources of a consumer over several queues: for each queue a consumer with its settings."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pgqpy.consumers.handlers import HandlerFailed
from pgqpy.consumers.retry import seconds
from pgqpy.consumers.settings import SETTINGS, handler_name
from pgqpy.consumers.status import COUNTS, ConsumerTotals
from pgqpy.consumers.together import run_together_async
from pgqpy.consumers.turns import Turns

if TYPE_CHECKING:
    from pgqpy.consumers._async.consumer import AsyncConsumer
    from pgqpy.consumers.status import Outage

OWN = ("queue", "queues", "part_size")  # settings that a source does not share with its owner
PART_SIZE = 100  # events, unless the owner says otherwise: urgent events wait for the end of a part

# A thread may ask for the outage while run() begins. If each made sources, stop() would stop those
# that do not run.
_making = threading.Lock()


class AsyncSources:
    """Runs a consumer for each queue of the owner, and gives them turns."""

    def __init__(self, owner: AsyncConsumer, kind: type[AsyncConsumer]) -> None:
        """Make the sources; `kind` is the base class, without what the application added."""
        self._owner = owner
        self._kind = kind
        self._each: list[AsyncConsumer] = []

    @property
    def each(self) -> list[AsyncConsumer]:
        """The sources, made anew if the owner has other queues than before."""
        queues = list(self._owner.queues)
        with _making:
            if [source.queue for source in self._each] != queues:
                self._each = [self._make(queue) for queue in queues]
            return self._each

    def _make(self, queue: str) -> AsyncConsumer:
        kind: type[AsyncConsumer] = type(type(self._owner).__name__, (self._kind,), {})
        source = kind.__new__(kind)
        self._configure(source)
        source.queue = queue
        self._kind.__init__(source, self._owner.dsn)
        return source

    def _configure(self, source: AsyncConsumer) -> None:
        owner, handler = self._owner, handler_name(self._owner)
        for setting in SETTINGS:
            if setting not in OWN:
                setattr(source, setting, getattr(owner, setting))
        setattr(source, handler, getattr(owner, handler))
        source.part_size = owner.part_size or PART_SIZE
        source.dsn = owner.dsn

    async def run(self) -> None:
        """Run all sources until each has ended; the end of one stops all. Raise the first error."""
        owner, each = self._owner, self.each
        for source in each:
            self._configure(source)  # an attribute may have been set since it was made
        self.turns = Turns(len(each), seconds(owner.turn_interval), self._on_turn)
        try:
            numbers = range(len(each))
            errors = await run_together_async({n: partial(self._run_one, n) for n in numbers})
        finally:
            self.turns.close()
            self._show_queue("")
        for number, error in errors.items():
            if error is each[number].handler_error:
                raise HandlerFailed(error)
            raise error

    async def _run_one(self, number: int) -> None:
        owner = self._owner
        try:
            await self._each[number]._pgq_run_as_source(owner, self.turns, number)  # noqa: SLF001  # for this
        finally:
            self.turns.leave(number)
            self._kind.stop(owner)  # the application may have a method of this name

    def _on_turn(self, number: int) -> None:
        self._show_queue(self._each[number].queue)

    def _show_queue(self, queue: str) -> None:
        """Set the owner's queue, which handlers read; `queue` itself is FIXED during a run."""
        vars(self._owner)["queue"] = queue

    def stop(self) -> None:
        """Stop all sources."""
        for source in self._each:
            source.stop()

    def counts(self) -> ConsumerTotals:
        """Return the sums of the sources' totals."""
        totals = [source.counts() for source in self.each]
        return ConsumerTotals(*(sum(getattr(each, name) for each in totals) for name in COUNTS))

    def outage(self) -> Outage | None:
        """Return the outage of the first source that has one."""
        for source in self.each:
            found = source.outage()
            if found is not None:
                return replace(found, what=f"queue {source.queue}: {found.what}")
        return None
