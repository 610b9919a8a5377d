"""A queue in Spark, as source and as sink, against Spark's own JDBC source and sink."""

from __future__ import annotations

from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, interleave, ratio, ratios
from benchmarks.report import Plot, Section, Table, at_least, at_most, paragraphs
from benchmarks.spark import session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from benchmarks.bench import Bench
    from benchmarks.load.latency import Round
    from benchmarks.report import Cell, Target
    from benchmarks.spark.database import QueueDatabase
    from benchmarks.spark.streaming import Sustained

TITLE = "Spark: the queue as source and sink, against JDBC"

PEER = "JDBC"
RATE = 50_000  # events/s
READS = 3  # times as many rounds of reading: they are short
FORMATS = ("parquet", "delta", "iceberg")
TRIGGERS = ("0 seconds", "1 second")
NOTES = """
Spark on local[2], in one session; everybody connects by TCP with a password. A read is from
spark.read to the end of the sink, of the same ten columns (of three, and two parsed ones, with
from_json) and with two partitions: ours as the source plans it, JDBC's by two conditions on
ev_txid, each half of the events, and fetchsize 10000. A stream is a new query with the trigger
availableNow.
A write is a DataFrame of two columns that Spark makes as it goes, two tasks, into the same empty
table; JDBC has batchsize 10000 and reWriteBatchedInserts, and neither it nor at least once is
atomic over tasks. Counts and sums are verified; warm-up rounds are dropped.
A pipeline is `pgqpy pipeline run --once`; the time is that of one micro-batch with all events.

The stream writes ev_id, ev_time, ev_type and ev_data into parquet once a second while one producer
inserts 500 events a transaction; counts, ids and sums of the files are verified. Its tables rotate
each minute. "Visible" is where foreachBatch has collected the event. Statements are those in the
server's log.
"""


def run(bench: Bench) -> Section:
    """Measure reads, writes, streams and silence."""
    session.require(jdbc=bench.length != "smoke")
    with TemporaryDirectory() as folder, session.session(folder) as spark:
        read = reading(bench, spark, folder)
        written = writing(bench, spark)
        waited, asked = latency(bench, spark, folder), silence(bench, spark, folder)
        sustained = streaming(bench, spark, folder)
        piped = pipelines(bench, folder)
    tables = [
        *(rates(f"Read into {sink}", found) for sink, found in read.items()),
        rates("Written", written),
        Table(
            "A pipeline's micro-batch", ["", "events/s"], [[*each] for each in piped.items()], ""
        ),
        visible(waited),
        statements(asked),
        steady(sustained),
    ]
    notes = [*paragraphs(NOTES), session.versions() + "."]
    met = [*targets(read, written, asked, sustained), *commits(piped)]
    return Section("spark", TITLE, tables, met, [plot(sustained)], notes)


def compared(bench: Bench) -> bool:
    """Say whether JDBC takes part."""
    return not bench.alone and session.JDBC.exists()


def new_database(bench: Bench, spark: SparkSession, name: str) -> QueueDatabase:
    """Return a fresh database."""
    from benchmarks.spark.database import QueueDatabase  # noqa: PLC0415  # pyspark may be missing

    bench.pgqpy_database(name)
    return QueueDatabase(spark, bench.server.tcp_dsn(name))


def reading(bench: Bench, spark: SparkSession, folder: str) -> dict[str, dict[str, Figure]]:
    """Return events a second, by the sink."""
    from benchmarks.spark import reading as case  # noqa: PLC0415  # pyspark may be missing

    count = bench.pick(smoke=10_000, default=1_000_000, long=1_000_000)
    database = new_database(bench, spark, "spark_read")
    case.fill(database.dsn, count)
    frames = case.contestants(database, jdbc=compared(bench))
    say = partial(_say, bench, "reading")
    return case.measure(database, frames, count, READS * bench.rounds, folder, say)


def writing(bench: Bench, spark: SparkSession) -> dict[str, Figure]:
    """Return events a second."""
    from benchmarks.spark import writing as case  # noqa: PLC0415  # pyspark may be missing

    count = bench.pick(smoke=10_000, default=1_000_000, long=1_000_000)
    database = new_database(bench, spark, "spark_write")
    case.prepare(database.dsn)
    writers = case.contestants(database, case.rows(database, count), jdbc=compared(bench))
    say = partial(_say, bench, "writing")
    return case.measure(writers, database.dsn, count, bench.rounds, say)


def pipelines(bench: Bench, folder: str) -> dict[str, Figure]:
    """Return events a second of the pipeline's write, by the format."""
    from benchmarks.spark import reading as filled  # noqa: PLC0415  # pyspark may be missing
    from benchmarks.spark import tables as case  # noqa: PLC0415  # as above

    count = bench.pick(smoke=10_000, default=1_000_000, long=1_000_000)
    bench.pgqpy_database("spark_tables")
    dsn = bench.server.tcp_dsn("spark_tables")
    filled.fill(dsn, count)
    formats = bench.pick(smoke=("delta",), default=FORMATS, long=FORMATS)
    runs = case.contestants(dsn, count, formats, folder)
    return interleave(runs, bench.rounds, partial(_say, bench, "pipeline into"))


def commits(piped: Mapping[str, Figure]) -> list[Target]:
    """Return the targets of the tables' commits."""
    return [
        at_most(f"pipeline: time for {name} / for parquet", ratio(piped["parquet"], figure), 1.2)
        for name, figure in piped.items()
        if name != "parquet" and "parquet" in piped
    ]


def latency(bench: Bench, spark: SparkSession, folder: str) -> Round:
    """Return the times from an insert to a stream's application."""
    from benchmarks.spark import waiting, writing  # noqa: PLC0415  # pyspark may be missing

    database = new_database(bench, spark, "spark_wait")
    writing.prepare(database.dsn)
    bench.say("from insert to visible")
    with bench.ticker(database.dsn):
        seconds = bench.pick(smoke=3.0, default=30.0, long=120.0)
        return waiting.wait(database, f"{folder}/wait", seconds)


def silence(bench: Bench, spark: SparkSession, folder: str) -> dict[str, float]:
    """Return SQL statements a second of an idle query, by its trigger."""
    from benchmarks.spark import silence as case  # noqa: PLC0415  # pyspark may be missing
    from benchmarks.spark import writing as one  # noqa: PLC0415  # as above

    found = {}
    for number, trigger in enumerate(TRIGGERS):
        bench.say(f"silence, trigger {trigger}")
        database = new_database(bench, spark, f"spark_idle{number}")
        one.prepare(database.dsn)
        seconds = bench.pick(smoke=2.0, default=10.0, long=60.0)
        log = bench.server.cluster.log
        found[trigger] = case.statements(database, log, f"{folder}/idle{number}", seconds, trigger)
    return found


def streaming(bench: Bench, spark: SparkSession, folder: str) -> Sustained:
    """Return the micro-batches of a stream into files."""
    from benchmarks.spark import streaming as case  # noqa: PLC0415  # pyspark may be missing
    from benchmarks.spark import writing as one  # noqa: PLC0415  # as above

    database = new_database(bench, spark, "spark_stream")
    one.prepare(database.dsn)
    seconds = bench.pick(smoke=3.0, default=60.0, long=600.0)
    bench.say(f"{RATE:,} events/s into parquet for {seconds:.0f} s")
    with bench.ticker(database.dsn):
        return case.sustain(database, f"{folder}/stream", RATE, seconds)


def _say(bench: Bench, what: str, text: str) -> None:
    bench.say(f"{what}, {text}")


def rates(title: str, found: Mapping[str, Figure]) -> Table:
    """Return the table of rates, with their ratios to JDBC's."""
    peer = found.get(PEER)
    rows: list[list[Cell]] = [
        [name, figure, ratios(figure, peer) if peer else ""] for name, figure in found.items()
    ]
    return Table(title, ["", "events/s", "/ JDBC"], rows, "events/s and their ratio")


def visible(found: Round) -> Table:
    """Return the table of the time from an insert to the application."""
    row: list[Cell] = ["pgqpy", found.rate, found.p50, found.p90, found.p99, found.max]
    columns = ["", "events/s", "p50", "p90", "p99", "max"]
    return Table("From insert to visible, trigger of 1 second", columns, [row], "ms")


def statements(found: Mapping[str, float]) -> Table:
    """Return the table of the statements of an idle query."""
    rows: list[list[Cell]] = [[f"trigger {name}", value] for name, value in found.items()]
    return Table("An idle query", ["", "SQL statements/s"], rows, "1/s")


def steady(found: Sustained) -> Table:
    """Return the table of the stream into files."""
    first, last = found.ends
    columns = ["", "events/s", "micro-batches", "first third", "last third", "longest", "late"]
    longest = max(point.took for point in found.points)
    row: list[Cell] = [
        "pgqpy",
        found.rate,
        str(len(found.points)),
        first,
        last,
        longest,
        found.late,
    ]
    return Table(
        f"{RATE:,} events/s into parquet",
        columns,
        [row],
        "s a micro-batch, medians; late: the producer, at most",
    )


def plot(found: Sustained) -> Plot:
    """Return the line of the micro-batches."""
    line = [(point.at, point.took) for point in found.points]
    return Plot(f"{RATE:,} events/s into parquet", "s", "s a micro-batch", {"pgqpy": line})


def targets(
    read: Mapping[str, Mapping[str, Figure]],
    written: Mapping[str, Figure],
    asked: Mapping[str, float],
    sustained: Sustained,
) -> list[Target]:
    """Return the targets, met or missed."""
    bounds = {"pgqpy": 1.0, "pgqpy at least once": 1.5, "pgqpy exactly once": 1.0}
    found = [
        at_least(f"{what}: {name} / JDBC", ratio(figures[name], figures[PEER]), bound)
        for what, figures in [
            *((f"read into {sink}", each) for sink, each in read.items()),
            ("write", written),
        ]
        for name, bound in bounds.items()
        if name in figures and PEER in figures
    ]
    first, last = sustained.ends
    size = median(point.events for point in sustained.points)
    batch, stream = read["noop"]["pgqpy"], read["noop"]["pgqpy, a stream until it has all"]
    return [
        *found,
        at_most("read into noop: time of a stream / of a batch read", ratio(batch, stream), 1.3),
        at_most("SQL statements/s of an idle query", max(asked.values()), 5),
        at_least("events/s into parquet / events/s asked for", sustained.rate / RATE, 0.95),
        at_most(f"micro-batches of about {size:,.0f}: last third / first third", last / first, 1.2),
    ]
