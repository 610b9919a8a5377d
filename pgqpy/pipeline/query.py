"""The Spark session and query of a pipeline: start, follow, restart, the cause of a failure."""

from __future__ import annotations

import logging
import os
import random
import re
import sys
import tempfile
import threading
import uuid
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pgqpy.consumers.signals import stop_on_signals
from pgqpy.errors import ConnectionFailed, PgqError
from pgqpy.pipeline.folders import join, remove
from pgqpy.pipeline.infer import find_schema
from pgqpy.pipeline.lake import TableWriter, check_place, open_table, starting_offsets
from pgqpy.pipeline.progress import Progress, QueueMonitor
from pgqpy.pipeline.records import EVENT_SCHEMA, SEVERAL_SCHEMA
from pgqpy.pipeline.writer import MicroBatchWriter
from pgqpy.spark import finish, register
from pgqpy.tick_ranges import has_several

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from pgqpy.pipeline.metrics import PipelineMetrics
    from pgqpy.pipeline.options import PipelineOptions

TRACEBACK = "Traceback (most recent call last):"
RAISED = re.compile(r"^([A-Za-z_][\w.]*): (.*)$", re.MULTILINE)
JAVA = re.compile(r"^(?:Caused by: |: )?((?:\w+\.)+\w*(?:Exception|Error)): (.*)$", re.MULTILINE)
SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}$")
CONNECTION_ERRORS = (psycopg.OperationalError, ConnectionFailed, ConnectionError)


class PipelineFailed(PgqError):
    """The pipeline ended with an error that a restart does not mend."""


class Cause(NamedTuple):
    """The exception that ended a query, on the driver or an executor."""

    name: str  # of the class, with its module; "" if there is none
    message: str

    @property
    def kind(self) -> type[BaseException]:
        """The class with this name; Exception if there is none."""
        module, _, name = self.name.rpartition(".")
        try:
            found = getattr(import_module(module or "builtins"), name)
        except (ImportError, AttributeError):
            return Exception
        return found if isinstance(found, type) else Exception

    @property
    def is_connection_loss(self) -> bool:
        """Whether the connection to PostgreSQL was lost, so that a retry may succeed."""
        return issubclass(self.kind, CONNECTION_ERRORS)

    def error(self) -> PgqError:
        """Return it as an instance of its own class if that is pgqpy's, else as PipelineFailed."""
        if issubclass(self.kind, PgqError):
            return self.kind(self.message)
        return PipelineFailed(f"{self.name.rpartition('.')[2]}: {self.message}".lstrip(": "))


def find_cause(text: str) -> Cause:
    """Return the last known Python error in a text, else the last Python error, else Java's cause.

    Spark may raise further errors while it handles ours, so the last one may not be the cause.
    """
    first, *tracebacks = text.split(TRACEBACK)
    ends = [found for traceback in tracebacks if (found := RAISED.search(traceback))]
    raised = [Cause(found[1], SQLSTATE.sub("", found[2])) for found in ends or JAVA.finditer(text)]
    known = [cause for cause in raised if issubclass(cause.kind, (PgqError, *CONNECTION_ERRORS))]
    if raised:
        return known[-1] if known else raised[-1]
    return Cause("", SQLSTATE.sub("", first.strip().partition("\n")[0]))


if TYPE_CHECKING:
    Say = Callable[[str], None]

POLL_INTERVAL = 0.2  # seconds between checks of the query
MAX_DELAY = 30.0  # seconds between two attempts to connect
SETTINGS: dict[str, Any] = {
    "spark.sql.session.timeZone": "UTC",  # ev_date is the same wherever the pipeline runs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other readers expect it
    "spark.ui.showConsoleProgress": "false",
    "spark.api.mode": "classic",
}
# Of a local master. Spark hands tasks out to whoever asks, and they hold the DSN: so nobody but
# this Spark may ask (it makes the secret itself), and nothing may stop the query by a link.
LOCAL_SETTINGS: dict[str, Any] = {"spark.authenticate": "true", "spark.ui.killEnabled": "false"}


def run_query(options: PipelineOptions, dsn: str, say: Say, metrics: PipelineMetrics) -> None:
    """Run the query until it has read everything (`available_now`), or until SIGTERM or SIGINT.

    Arguments and errors are those of `run_pipeline`.
    """
    with closing(QueueMonitor(dsn, options.queue)) as monitor:
        monitor.check()
        if options.is_table:
            check_place(options)
        try:
            with _session(options) as spark, _checkpoint(options, spark) as checkpoint:
                _QueryRunner(options, dsn or None, spark, checkpoint, monitor, metrics, say).run()
        except (Py4JNetworkError, ConnectionError) as exc:  # the connection to Java was lost
            raise PipelineFailed(
                "Spark's Java process has ended: PGQPY_DEBUG=1 shows more"
            ) from exc


@dataclass(repr=False)  # the DSN may contain a password
class _QueryRunner:
    options: PipelineOptions
    dsn: str | None  # None: each process uses libpq's PG* variables
    spark: SparkSession
    checkpoint: str
    monitor: QueueMonitor
    metrics: PipelineMetrics
    say: Say

    def __post_init__(self) -> None:
        register(self.spark)
        self.starts = count()
        self.progress = Progress(self.monitor, self.metrics, self.say)
        self.stop = threading.Event()

    def run(self) -> None:
        """Run the query, and again after each lost connection, until it ends without error."""
        self.say(self.options.describe())
        self.schema = self._find_schema()
        failures = 0
        with stop_on_signals(self.stop.set):
            while not self.stop.is_set():
                ticks = self.progress.ticks
                checkpoint = self.checkpoint
                if self.options.is_table:  # the table is the memory, also after a lost connection
                    checkpoint = join(checkpoint, str(next(self.starts)))
                lost = self._run_once(checkpoint)
                if lost is None:
                    break
                failures = 1 if self.progress.ticks != ticks else failures + 1
                self._wait_for_server(lost, failures)
        if self.progress.ticks:  # else the checkpoint may be empty
            _finish(self.spark, checkpoint, self.dsn, self.say)
        self.progress.end()

    def _find_schema(self) -> StructType | None:
        try:
            return find_schema(self.spark, self.options, self.monitor, self.say)
        except (Py4JJavaError, PySparkException) as exc:
            raise find_cause(str(exc)).error() from exc

    def _run_once(self, checkpoint: str) -> str | None:
        """Run the query until it ends; return the message of a lost connection, else None."""
        try:
            writer, start = self._prepare(checkpoint)
            query = self._start(writer, start, checkpoint)
            self._follow(query)
            error = writer.error or query.exception()
        except Py4JNetworkError:
            raise
        except (psycopg.OperationalError, ConnectionFailed) as exc:
            return str(exc)
        except (Py4JError, PySparkException) as exc:
            error = exc
        if self.stop.is_set() or error is None:
            return None
        cause = find_cause(str(error))
        if not cause.is_connection_loss:
            raise cause.error() from error
        return cause.message

    def _prepare(self, checkpoint: str) -> tuple[MicroBatchWriter, str | None]:
        """Return the writer of a query, and where the query starts, if it has no checkpoint."""
        options, wrote = self.options, self.progress.add
        if not options.is_table:
            return MicroBatchWriter(options, self.schema, wrote), options.starting_offsets
        table = open_table(options, self.spark, self.schema)
        writer = TableWriter(options, self.schema, wrote, table=table, checkpoint=checkpoint)
        start = starting_offsets(self.monitor.client(), options, writer.at)
        writer.remove_later_bad(self.spark)
        return writer, start

    def _start(
        self, writer: MicroBatchWriter, start: str | None, checkpoint: str
    ) -> StreamingQuery:
        columns = SEVERAL_SCHEMA if has_several(self.options.queue) else EVENT_SCHEMA
        reader = self.spark.readStream.format("pgq").schema(columns)
        if self.dsn is not None:  # an option is sent inside the tasks, which are never printed
            reader = reader.option("dsn", self.dsn)
        options = replace(self.options, starting_offsets=start).source_options()
        events = reader.options(**options).load()
        stream = events.writeStream.queryName(self.options.consumer).foreachBatch(writer)
        stream = stream.option("checkpointLocation", checkpoint)
        return stream.trigger(**self.options.trigger()).start()

    def _follow(self, query: StreamingQuery) -> None:
        """Report progress until the query ends or must stop."""
        while query.isActive and not self.stop.wait(POLL_INTERVAL):
            self.progress.report(query.lastProgress)
        query.stop()
        self.progress.report(query.lastProgress, at_once=True)

    def _wait_for_server(self, lost: str, failures: int) -> None:
        """Try to connect until it succeeds, with a longer delay after each failure."""
        self.monitor.close()
        while not self.stop.is_set():
            delay = min(MAX_DELAY, 2.0**failures / 2) * random.uniform(0.8, 1.2)
            self.say(f"connection lost ({lost}); trying again in {delay:.1f} s")
            self.stop.wait(delay)
            try:
                self.monitor.check()
            except ConnectionFailed as exc:
                lost, failures = str(exc), failures + 1
            else:
                return


def _finish(spark: SparkSession, checkpoint: str, dsn: str | None, say: Say) -> None:
    """Advance the subscription past the last micro-batch; without a server, leave it for later."""
    try:
        finish(spark, checkpoint, dsn=dsn)
    except ConnectionFailed as exc:
        say(f"the consumer stays one micro-batch behind: {exc}")


@contextmanager
def _checkpoint(options: PipelineOptions, spark: SparkSession) -> Iterator[str]:
    """Yield the folder of the checkpoint. For the console and for tables it is temporary."""
    if options.checkpoint_path is not None:
        yield options.checkpoint_path
    elif options.checkpoint is None:
        prefix = "pgqpy-checkpoint-"
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
            yield f"file:{folder}"  # Spark's default may be another file system
    else:
        folder = join(options.checkpoint, f"pgqpy-{uuid.uuid4().hex}")
        try:
            yield folder
        finally:
            with suppress(Py4JError):  # Java may be gone
                remove(spark, folder)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Let Python processes of a Java process that starts in the block be safe in any directory.

    They import nothing from the working directory, from Python 3.11 on.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


@contextmanager
def _session(options: PipelineOptions) -> Iterator[SparkSession]:
    """Yield a new session, or the one that spark-submit prepared; stop it at the end.

    No setting may contain a secret: PySpark passes every setting to Java as an argument.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # then Spark's own files configure it
    builder = SparkSession.builder.appName(f"pgqpy pipeline {options.queue}").config(map=SETTINGS)
    master = options.master or (None if submitted else "local[*]")
    if master is not None:
        builder = builder.master(master)
    if master is not None and master.startswith("local"):
        builder = builder.config(map=LOCAL_SETTINGS)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # where its ports listen
    if not submitted:
        # The default is the first python3 on PATH, which may lack pgqpy.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _safe_path():
        spark = builder.getOrCreate()
    if not submitted and not os.environ.get("PGQPY_DEBUG"):
        spark.sparkContext.setLogLevel("OFF")  # errors are reported in one line
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        yield spark
    finally:
        spark.stop()
