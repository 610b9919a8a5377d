"""What is counted of a consumer, and the interface of its tracer. No I/O."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgqpy.consumers.histograms import HandlerTimes, InsertTimes
    from pgqpy.records import Batch, Event, ListInfo


class BatchTrace(Protocol):
    """The spans of one open batch, or of a part of it."""

    def note(self, events: Sequence[Event]) -> None:
        """Note that these events were read."""

    def event(self, event: Event) -> AbstractContextManager[None]:
        """Return the block that calls process_event."""

    def handler(self, batch: TracedBatch) -> AbstractContextManager[None]:
        """Return the block that calls process_batch."""

    def finished(self, events: int) -> None:
        """Note that the batch or part was finished, with so many events."""


class Tracing(Protocol):
    """The tracer of one consumer."""

    def opened(self, batch: Batch | ListInfo) -> BatchTrace:
        """Begin the spans of a batch or part that was opened now."""


class TracedBatch(Protocol):
    """A batch that may be traced and measured."""

    inserted: InsertTimes | None
    trace: BatchTrace | None
    size: int  # events that were read, in the last pass

    @property
    def unread(self) -> bool:
        """Whether the pass that the handler began last stopped before the last event."""


def tracing_event(batch: TracedBatch, event: Event) -> AbstractContextManager[None]:
    """Return the block that calls process_event, traced if its batch is."""
    return nullcontext() if batch.trace is None else batch.trace.event(event)


@contextmanager
def measuring_batch(counts: ConsumerTotals, batch: TracedBatch) -> Iterator[None]:
    """Measure and trace the call of process_batch in the block, as far as that is wanted."""
    trace = nullcontext() if batch.trace is None else batch.trace.handler(batch)
    times = nullcontext() if counts.times is None else counts.times.batch_call(batch)
    with trace, times:
        yield


@dataclass
class ConsumerTotals:
    """Totals of the batches that were finished since the consumer was made."""

    batches: int = 0
    events: int = 0  # passed to the handler: not those parked behind another event
    retries: int = 0
    dead: int = 0
    times: HandlerTimes | None = field(default=None, repr=False, compare=False)  # if exposed
    tracing: Tracing | None = field(default=None, repr=False, compare=False)  # if traced


class Drained(NamedTuple):
    """What `drain()` did, in events: those that were handled, retried and made dead."""

    handled: int
    retried: int
    dead: int


@dataclass(frozen=True)
class Outage:
    """A time in which a consumer cannot poll for batches, or may lose the batch that it has."""

    reason: str = ""  # empty before the first connection
    since: float = field(default_factory=time.monotonic)
    what: str = "no working connection to the database"

    def __str__(self) -> str:
        text = f"{self.what} for {time.monotonic() - self.since:.1f} s"
        return f"{text}: {self.reason}" if self.reason else text
