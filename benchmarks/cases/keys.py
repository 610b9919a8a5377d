"""Order per key: the latency of events that arrive steadily, and beside one hot key."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import Figure, interleave, ratio
from benchmarks.load.handle import CONSUMER_CLASS, PGQPY, POLL, SKIP_LOCKED, WORK
from benchmarks.load.keys import RATE, Latency, Round, make, measure
from benchmarks.report import Section, Table, at_most, paragraphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.bench import Bench
    from benchmarks.report import Cell, Target

TITLE = "Order per key: workers that share a queue"
KEYS = (6, 10_000)
HOT_KEYS = 100  # beside the hot one
LIMITS = (1, 10)
TIMES = 2  # of the peer's latency
EXTRA = {"p50": 10, "p99": 20}  # milliseconds more
CATCH_UP = {"smoke": 0.5, "default": 5.0, "long": 60.0}  # seconds beside the hot key
BESIDE = 3  # times the others' latency without the hot key
NOTES = """
{workers} workers, each a process, handle {rate} events a second of random keys; gaps are
exponential. A handler waits for {work:.0f} ms in a transaction that ends with the event's done. A
worker that finds nothing polls again after {poll:.0f} ms on average. Latency: from just before the
insert to the commit of the handler's transaction, sync on. It is checked that every event came
once, and those of a key in their order, one after the other.

SKIP LOCKED: a table, of which a worker locks the oldest row that has no earlier one of its key, and
deletes it. pgqpy: receive and done, with the key in extra1 and the real ticker. pgqpy Consumer: a
TransactionalConsumer with key = "extra1" in each process; its times end before the commit.

Hot key: {hot:,} events of one key wait before the others arrive, which have {others} keys. Its own
events are handled meanwhile, and not all of them. Events behind the backlog wait until a worker has
noted what is in it: that is in the warm-up, of {catch_up:g} s, and in the column "worst".
"""


class Setting(NamedTuple):
    """A contestant and its load."""

    contestant: str
    limit: int
    keys: int
    hot: int = 0  # events of the hot key

    @property
    def name(self) -> str:
        """The contestant with its limit."""
        return f"{self.contestant}, limit {self.limit}"


Found = dict[Setting, dict[str, Figure]]


def run(bench: Bench) -> Section:
    """Measure the peer and pgqpy, and pgqpy beside a hot key."""
    hot = bench.pick(smoke=2_000, default=100_000, long=1_000_000)
    workers = bench.pick(smoke=3, default=12, long=12)
    dsn = bench.pgqpy_database("keys")
    dsns = {PGQPY: dsn, CONSUMER_CLASS: dsn, SKIP_LOCKED: bench.database("keys_table")}
    found: Found = {}
    for keys in KEYS:
        ours = [Setting(PGQPY, limit, keys) for limit in LIMITS]
        ours.append(Setting(CONSUMER_CLASS, 1, keys))
        found |= latencies(bench, dsns, workers, [Setting(SKIP_LOCKED, 1, keys), *ours])
    limits = LIMITS[:1] if bench.length == "smoke" else LIMITS
    beside = [Setting(PGQPY, limit, HOT_KEYS, many) for limit, many in product(limits, (0, hot))]
    with_hot = latencies(bench, dsns, workers, beside)
    notes = NOTES.format(
        catch_up=bench.pick(**CATCH_UP),
        workers=workers,
        rate=RATE,
        work=WORK * 1000,
        poll=POLL * 1000,
        hot=hot,
        others=HOT_KEYS,
    )
    return Section(
        "keys",
        TITLE,
        [
            *(table(found, keys) for keys in KEYS),
            hot_table(with_hot),
        ],
        [*targets(found), *hot_targets(with_hot)],
        notes=paragraphs(notes),
    )


def latencies(
    bench: Bench, dsns: Mapping[str, str], workers: int, settings: list[Setting]
) -> Found:
    """Let the settings take turns; return the percentiles of each."""
    rounds: dict[Setting, list[Latency]] = {setting: [] for setting in settings}

    warm_up = bench.pick(smoke=0.2, default=1.0, long=2.0)
    catch_up = bench.pick(**CATCH_UP)

    def one(setting: Setting) -> float:
        dsn = dsns[setting.contestant]
        load = Round(
            setting.contestant,
            dsn,
            setting.limit,
            setting.keys,
            workers,
            seconds=bench.pick(smoke=0.5, default=8.0, long=60.0),
            warm_up=catch_up if setting.keys == HOT_KEYS else warm_up,
        )
        make(setting.contestant, dsn, setting.hot)
        with nullcontext() if setting.contestant == SKIP_LOCKED else bench.ticker(dsn):
            rounds[setting].append(measure(load))
        return rounds[setting][-1].p99

    runs = {
        f"{setting.name}, {setting.keys:,} keys, {setting.hot:,} hot": partial(one, setting)
        for setting in settings
    }
    interleave(runs, bench.rounds, bench.say)
    return {
        setting: {name: Figure([getattr(one, name) for one in found]) for name in Latency._fields}
        for setting, found in rounds.items()
    }


def table(found: Found, keys: int) -> Table:
    """Return the latencies with so many keys."""
    rows: list[list[Cell]] = [
        [setting.name, *figures.values()]
        for setting, figures in found.items()
        if setting.keys == keys
    ]
    return Table(f"{keys:,} keys", ["", *Latency._fields], rows, "ms")


def hot_table(found: Found) -> Table:
    """Return the latencies of other keys, alone and beside the hot one."""
    rows: list[list[Cell]] = [
        [f"{setting.name}, {'hot key' if setting.hot else 'alone'}", *figures.values()]
        for setting, figures in found.items()
    ]
    return Table(f"{HOT_KEYS} other keys beside a hot one", ["", *Latency._fields], rows, "ms")


def targets(found: Found) -> Iterator[Target]:
    """Compare with the peer."""
    for setting, figures in found.items():
        peer = found[Setting(SKIP_LOCKED, 1, setting.keys)]
        for name in () if setting.contestant == SKIP_LOCKED else EXTRA:
            text = f"{name}, {setting.keys:,} keys, {setting.name} (ms)"
            bound = TIMES * peer[name].median + EXTRA[name]
            yield at_most(text, figures[name].median, round(bound, 1))


def hot_targets(found: Found) -> Iterator[Target]:
    """Compare the other keys with themselves alone."""
    for setting, figures in found.items():
        if setting.hot:
            alone = found[setting._replace(hot=0)]["p99"]
            text = f"p99 of other keys beside a hot one / alone, {setting.name}"
            yield at_most(text, ratio(figures["p99"], alone), BESIDE)
