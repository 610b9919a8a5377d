"""The interface between the loops and the tracer that pgqpy.otel makes."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from pgqpy.consumers.handler_times import ReadBatch, timing_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pgqpy.consumers.status import ConsumerTotals
    from pgqpy.records import Batch, Event


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

    def opened(self, batch: Batch) -> BatchTrace:
        """Begin the spans of a batch or part that was opened now."""


class TracedBatch(ReadBatch, Protocol):
    """A batch that may be traced."""

    trace: BatchTrace | None
    size: int  # events that were read, in the last pass


def tracing_event(batch: TracedBatch, event: Event) -> AbstractContextManager[None]:
    """Return the block that calls process_event, traced if its batch is."""
    return nullcontext() if batch.trace is None else batch.trace.event(event)


@contextmanager
def measuring_batch(counts: ConsumerTotals, batch: TracedBatch) -> Iterator[None]:
    """Measure and trace the call of process_batch in the block, as far as that is wanted."""
    trace = nullcontext() if batch.trace is None else batch.trace.handler(batch)
    with trace, timing_batch(counts.times, batch):
        yield
