"""The history checker for workers of a shared consumer, with the faults that hit them.

Each worker writes for each event that it has handled `{"at", "who", "batch", "data", "retry",
"raised"}`: when and by whom, the event's batch, its data, how often it was retried before, and
whether the handler then raised. Producers write what history.py describes.

An event that was handled twice is explained if a fault hit the worker while it had the batch: it
may lose the batch by that, and another worker, or the same one, handles the events again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tests.guarantees.history import Findings, check_events, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.guarantees.history import Transaction


class Handled(NamedTuple):
    """One event that a worker has handled."""

    at: float
    who: str
    batch: int
    data: str
    retry: int
    raised: bool


class Fault(NamedTuple):
    """What was done to a worker (`process.thread`), to a process (`process.`) or to all ("")."""

    kind: str
    who: str
    begun: float
    ended: float = math.inf  # of a killed process


def read_handled(path: Path) -> list[Handled]:
    """Read what a worker wrote; a line that a kill cut short does not count."""
    return [Handled(**line) for line in read_lines(path)]


def check_workers(
    transactions: list[Transaction], logs: Iterable[list[Handled]], faults: list[Fault]
) -> Findings:
    """Judge a history that has come to rest: nothing lost, nothing doubled without a fault."""
    findings = Findings()
    deliveries: dict[tuple[str, int], list[tuple[Handled, bool]]] = defaultdict(list)
    for log in logs:
        for handled, hit in _with_hits(log, faults):
            deliveries[handled.data, handled.retry].append((handled, hit))
    check_events(transactions, {data: 0 for data, _ in deliveries}, findings)
    for (data, retry), found in deliveries.items():
        raised = any(handled.raised for handled, _ in found)
        if raised and (data, retry + 1) not in deliveries:
            findings.lost.append(data)
        if sum(not hit for _, hit in found) > 1 or (retry and not _raised(deliveries, data, retry)):
            findings.twice.append(data)
    return findings


def _raised(
    deliveries: dict[tuple[str, int], list[tuple[Handled, bool]]], data: str, retry: int
) -> bool:
    """Say whether an event was to be retried so often."""
    return any(handled.raised for handled, _ in deliveries.get((data, retry - 1), []))


def _with_hits(log: list[Handled], faults: list[Fault]) -> Iterator[tuple[Handled, bool]]:
    """Yield what one worker handled, and whether a fault hit it while it had the batch.

    It has a batch after its last event before, and until its first event after the batch.
    """
    batches = [list(batch) for _, batch in groupby(log, attrgetter("batch"))]
    begins = [-math.inf, *(batch[-1].at for batch in batches)]
    ends = [*(batch[0].at for batch in batches[1:]), math.inf]
    for batch, begin, end in zip(batches, begins, ends, strict=False):
        hit = any(
            fault.begun < end and fault.ended > begin and batch[0].who.startswith(fault.who)
            for fault in faults
        )
        for handled in batch:
            yield handled, hit
