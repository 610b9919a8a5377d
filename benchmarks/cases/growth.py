"""The cost of an event and of a batch cycle, which must stay flat while something else grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.growth import backlog, batches, consumers, queues, ticks
from benchmarks.growth.sweep import plot, table, targets
from benchmarks.report import Section, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench

TITLE = "Flat as work grows"

NOTES = """
Each point has a database of its own; points take turns, and every point's cost stands beside its
multiple of the first point's. One session does the work, with synchronous_commit off, so that the
disk hides nothing. insert_event: 1,000 in one transaction. A batch cycle: next_batch, the events
(one, unless the table says otherwise), finish_batch. Memory is the peak of the whole process.
"""


def run(bench: Bench) -> Section:
    """Run the five sweeps."""
    found = [sweep.run(bench) for sweep in (queues, consumers, backlog, batches, ticks)]
    return Section(
        "growth",
        TITLE,
        [table(sweep) for sweep in found],
        [target for sweep in found for target in targets(sweep)],
        [plot(sweep) for sweep in found],
        paragraphs(NOTES),
    )
