"""A transaction holds xmin back: no dead row can be removed, and cycles must not slow down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.figures import Wrong, verify
from benchmarks.report import Plot, Section, Table, Target, at_most, paragraphs
from benchmarks.xmin.contestants import names
from benchmarks.xmin.hold import CYCLES, EVENTS, hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.bench import Bench
    from benchmarks.report import Cell
    from benchmarks.xmin.course import Course

TITLE = "Another transaction holds xmin"

GROWTH = 1.2  # times the beginning
DEAD_ROWS = 30_000  # of all small tables of pgqpy together, however long xmin is held
SHOWN = {"pgqpy": "pgqpy", "pgq": "PGQ in C", "pgmq": "pgmq"}
NOTES = """
A session holds the snapshot of a REPEATABLE READ transaction that has read an unrelated table,
while 1,000 events/s come in and a consumer does batch cycles on a schedule of 100 turns a second,
each until nothing is left. Rotation every 10 s, clean-up every 2 s. synchronous_commit is off: the
disk would hide what a cycle costs.

The beginning and the end are the first and the last fifth of the run. Cycle: the median. p99
latency, insert to handler: the median of the part's seconds. Dead rows are counted by pgstattuple;
the figure is the most at any time.

pgqpy: the real ticker, next_batch, events, finish_batch. PGQ in C: the same client, pgqd for
maintenance; the consumer ticks before each turn, for pgqd does it once a second. pgmq: read up to
1,000, delete them. "Not delivered" is what was still to come a minute after the end.
"""


def run(bench: Bench) -> Section:
    """Run one contestant after the other."""
    seconds = bench.pick(smoke=180.0, default=80.0, long=1800.0)
    every = bench.pick(smoke=2.0, default=2.0, long=10.0)
    found: dict[str, Course] = {}
    for peer in names(bench):
        bench.say(f"{SHOWN[peer]}, xmin held for {seconds:.0f} s")
        found[peer] = hold(bench, peer, seconds, every)
    mine = found["pgqpy"]
    judge(mine)
    tables = [comparison(found), by_table(mine)]
    return Section("xmin", TITLE, tables, [*targets(mine)], plots(found), paragraphs(NOTES))


def judge(mine: Course) -> None:
    """Raise Wrong if there are dead rows where there must be none, or more than are allowed."""
    verify("dead rows in event tables", mine.most("events"), 0)
    if mine.most("small") > DEAD_ROWS:
        raise Wrong(f"{mine.most('small'):,} dead rows in the small tables: {mine.most_by_table()}")


def comparison(found: Mapping[str, Course]) -> Table:
    """Return a row a contestant."""
    columns = ["cycles/s", "cycle, beginning", "cycle, end", "end to beginning"]
    columns += ["p99, beginning", "p99, end", "end to beginning"]
    columns += ["dead rows, event tables", "small tables", "pg_class", "not delivered"]
    rows: list[list[Cell]] = [
        [
            SHOWN[peer],
            course.cycles,
            course.first.cycle,
            course.last.cycle,
            course.cycle_growth,
            course.first.p99,
            course.last.p99,
            course.latency_growth,
            course.most("events"),
            course.most("small"),
            course.most("catalog"),
            course.missing,
        ]
        for peer, course in found.items()
    ]
    title = f"{EVENTS:,} events/s, {CYCLES} turns/s"
    return Table(title, ["", *columns], rows, unit="ms, rows")


def by_table(mine: Course) -> Table:
    """Return the most dead rows of each of pgqpy's small tables."""
    dead = {name: most for name, most in mine.most_by_table().items() if most}
    rows: list[list[Cell]] = [[name, float(most)] for name, most in dead.items()]
    return Table("pgqpy's small tables", ["", "most dead rows"], rows, "rows")


def targets(mine: Course) -> Iterator[Target]:
    """Compare with the targets."""
    yield at_most("batch cycle, end to beginning", mine.cycle_growth, GROWTH)
    yield at_most("p99 latency, end to beginning", mine.latency_growth, GROWTH)
    yield at_most("dead rows in event tables", mine.most("events"), 0)
    yield at_most("dead rows in the small tables", mine.most("small"), DEAD_ROWS)


def plots(found: Mapping[str, Course]) -> list[Plot]:
    """Return cycles and dead rows over time."""
    cycles = {SHOWN[peer]: course.slow for peer, course in found.items()}
    dead = {
        f"{SHOWN[peer]}, {name}": [
            (sample.at, float(sample.total(kind))) for sample in course.samples
        ]
        for peer, course in found.items()
        for kind, name in (("events", "event tables"), ("small", "small tables"))
    }
    return [
        Plot(
            "Batch cycle while xmin is held",
            "seconds",
            "ms, median of a second",
            cycles,
            log_y=True,
        ),
        Plot("Dead rows while xmin is held", "seconds", "rows", dead),
    ]
