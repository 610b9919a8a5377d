"""Events received and done per second, by receivers that share one queue."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.bench import SYNC
from benchmarks.figures import Figure, interleave, ratio, ratios
from benchmarks.load.backlog import Backlog
from benchmarks.load.receivers import Receivers, receivers
from benchmarks.readers.claims import BOTH, OURS, PGMQ, RECEIVERS
from benchmarks.report import Section, Table, at_least, at_most, paragraphs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from benchmarks.bench import Bench
    from benchmarks.report import Cell, Target

TITLE = "Receive and done: receivers that share a queue"
BULK_NUMBERS = (1, 4)  # receivers
BULK_LIMITS = (1, 100)
LEVELS = {1: 8_000, 10: 50_000, 100: 120_000, 1000: 200_000}  # events for a second, by limit
ONE_BY_ONE = {1: 1.0, 4: 1.0, 16: 0.9}  # wanted of pgmq's rate, by receivers
LISTS = {1: 1.5, 4: 1.5, 16: 1.3}
BULK_ONE_BY_ONE, BULK_LISTS = 1.0, 1.5
FIRST = 0.3  # seconds
NOTES = """
Receivers are processes with a session each. They claim up to "limit" events in a turn and end them
all in one call. pgmq's statements: those of read and delete, on a table like pgmq's. SKIP LOCKED:
delete … returning, so an event is lost if its receiver dies. pgqpy: receive and done, or
done_receive, which does both in one call. Events of 200 bytes.

Backlog: inserted in transactions of 1,000, for pgqpy with the ticker beside; each run begins with
clean tables and a checkpoint, and warms up before events count. Number and sum of the ids of all
events are checked, with what the runs left.

After a bulk: one transaction of {bulk:,} events, sync on. pgqpy's first turn comes straight after
the commit, that of the tables after a vacuum.
"""


class Setting(NamedTuple):
    """What is measured of each contestant."""

    limit: int
    number: int  # receivers
    sync: bool = True

    @property
    def text(self) -> str:
        """The setting without its column."""
        return f"limit {self.limit:,}, {self.number} receiver{'s' * (self.number > 1)}"


@dataclass
class Results:
    """The rates by setting and contestant."""

    steady: dict[Setting, dict[str, Figure]] = field(default_factory=dict)
    bulk: dict[Setting, dict[str, Figure]] = field(default_factory=dict)
    first: dict[int, dict[str, Figure]] = field(default_factory=dict)  # seconds; by limit


def run(bench: Bench) -> Section:
    """Measure the contestants on a steady backlog and after a bulk."""
    numbers = bench.pick(smoke=(1, 4), default=(1, 4, 16), long=(1, 4, 16))
    limits = bench.pick(smoke=(1, 100), default=(1, 10, 100), long=(1, 10, 100, 1000))
    bulk = bench.pick(smoke=50_000, default=1_000_000, long=1_000_000)
    seconds = bench.pick(smoke=0.2, default=1.0, long=5.0)
    warm_up = bench.pick(smoke=0.2, default=0.5, long=1.0)
    syncs = (True,) if bench.length == "smoke" else (True, False)
    backlogs = {
        name: Backlog(
            name,
            bench.pgqpy_database(f"receive{index}")
            if name in OURS
            else bench.database(f"receive{index}"),
        )
        for index, name in enumerate(RECEIVERS)
    }
    found = Results()
    with receivers(max(numbers), seconds, warm_up) as processes:
        for sync, limit in product(syncs, limits):
            settings = [Setting(limit, number, sync) for number in numbers]
            found.steady.update(steady(bench, processes, backlogs, settings))
        for limit in BULK_LIMITS:
            found.first[limit], rates = after_bulk(bench, processes, backlogs, bulk, limit)
            found.bulk.update(rates)
    return Section(
        "receive",
        TITLE,
        [*tables(found, syncs), *bulk_tables(found, bulk)],
        [*targets(found, bulk)],
        notes=paragraphs(NOTES.format(bulk=bulk)),
    )


def steady(
    bench: Bench, processes: Receivers, backlogs: dict[str, Backlog], settings: list[Setting]
) -> dict[Setting, dict[str, Figure]]:
    """Measure settings of one limit on one backlog of each contestant."""
    for backlog in backlogs.values():
        backlog.make()
    found = {}
    for setting in settings:
        runs = {
            name: partial(one, bench, processes, backlog, setting)
            for name, backlog in backlogs.items()
        }
        say = partial(say_of, bench, f"{setting.text}, {SYNC[setting.sync]}")
        found[setting] = interleave(runs, bench.rounds, say)
    for backlog in backlogs.values():
        backlog.drain()
    return found


def say_of(bench: Bench, what: str, text: str) -> None:
    """Report the progress of a part."""
    bench.say(f"{what}, {text}")


def one(bench: Bench, processes: Receivers, backlog: Backlog, setting: Setting) -> float:
    """Fill a backlog up and receive from it; return the events a second."""
    with ticker(bench, backlog):
        backlog.fill(int(LEVELS[setting.limit] * processes.span))
        return rate(bench, processes, backlog, setting)


def rate(bench: Bench, processes: Receivers, backlog: Backlog, setting: Setting) -> float:
    """Receive from a backlog; return the events a second."""
    dsn = bench.dsn_with(backlog.dsn, sync=setting.sync)
    return processes.rate(backlog, dsn, setting.limit, setting.number)


def ticker(bench: Bench, backlog: Backlog) -> AbstractContextManager[object]:
    """Run the ticker for a contestant that has one."""
    return bench.ticker(backlog.dsn) if backlog.contestant in OURS else nullcontext()


def after_bulk(
    bench: Bench, processes: Receivers, backlogs: dict[str, Backlog], count: int, limit: int
) -> tuple[dict[str, Figure], dict[Setting, dict[str, Figure]]]:
    """Measure after one transaction: the seconds of the first turns, and the rates then."""
    settings = [Setting(limit, number) for number in BULK_NUMBERS]
    values: dict[tuple[Setting, str], list[float]] = {}

    def first(backlog: Backlog) -> float:
        backlog.make()
        with ticker(bench, backlog):
            backlog.fill_at_once(count)
            if backlog.contestant not in OURS:
                backlog.clean()
            took = backlog.first(limit)
            for setting in settings:
                backlog.clean()
                got = rate(bench, processes, backlog, setting)
                values.setdefault((setting, backlog.contestant), []).append(got)
            backlog.drain()
        return took

    firsts = interleave(
        {name: partial(first, backlog) for name, backlog in backlogs.items()},
        bench.rounds,
        partial(say_of, bench, f"limit {limit:,} after a bulk"),
    )
    rates = {
        setting: {name: Figure(values[setting, name]) for name in backlogs} for setting in settings
    }
    return firsts, rates


def tables(found: Results, syncs: tuple[bool, ...]) -> Iterator[Table]:
    """Return a table of rates a limit, and one of ratios to pgmq's statements."""
    columns = [SYNC[sync] for sync in syncs]
    settings = [setting for setting in found.steady if setting.sync]
    for limit in dict.fromkeys(setting.limit for setting in settings):
        rows: list[list[Cell]] = [
            [
                f"{name}, {setting.number}",
                *(found.steady[setting._replace(sync=sync)][name] for sync in syncs),
            ]
            for setting in settings
            if setting.limit == limit
            for name in RECEIVERS
        ]
        yield Table(f"Backlog, limit {limit:,}", ["receivers", *columns], rows, "events/s")
    rows = [
        [
            f"{name}, {setting.text}",
            *(against(found.steady[setting._replace(sync=sync)], name) for sync in syncs),
        ]
        for setting in settings
        for name in OURS
    ]
    yield Table(f"Backlog: pgqpy / {PGMQ}, in the same round", ["", *columns], rows, "ratio")


def bulk_tables(found: Results, count: int) -> Iterator[Table]:
    """Return the rates after a bulk, their ratios, and the first turns."""
    title = f"After one transaction of {count:,}"
    columns = ["", *(setting.text for setting in found.bulk)]
    rows: list[list[Cell]] = [
        [name, *(figures[name] for figures in found.bulk.values())] for name in RECEIVERS
    ]
    yield Table(title, columns, rows, "events/s")
    rows = [[name, *(against(figures, name) for figures in found.bulk.values())] for name in OURS]
    yield Table(f"{title}: pgqpy / {PGMQ}, in the same round", columns, rows, "ratio")
    rows = [[name, *(figures[name] for figures in found.first.values())] for name in RECEIVERS]
    columns = ["", *(f"limit {limit:,}" for limit in found.first)]
    yield Table(f"{title}: the first turn", columns, rows, "s")


def against(figures: dict[str, Figure], name: str) -> Figure:
    """Return the ratios to pgmq's statements."""
    return ratios(figures[name], figures[PGMQ])


def targets(found: Results, count: int) -> Iterator[Target]:
    """Compare with the targets, where the disk is waited for."""
    for setting, figures in found.steady.items():
        if setting.sync:
            bound = (ONE_BY_ONE if setting.limit == 1 else LISTS)[setting.number]
            text = f"{BOTH} / {PGMQ}, {setting.text}"
            yield at_least(text, ratio(figures[BOTH], figures[PGMQ]), bound)
    for setting, figures in found.bulk.items():
        bound = BULK_ONE_BY_ONE if setting.limit == 1 else BULK_LISTS
        text = f"{BOTH} / {PGMQ}, {setting.text}, after a bulk"
        yield at_least(text, ratio(figures[BOTH], figures[PGMQ]), bound)
    for limit, figures in found.first.items():
        text = f"first turn after a transaction of {count:,}, {BOTH}, limit {limit:,} (s)"
        yield at_most(text, figures[BOTH].median, FIRST)
