"""The query of a pipeline: start, follow, restart after a lost connection, stop on a signal."""

from __future__ import annotations

import random
import tempfile
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from pgqpy.consumers.signals import drain_on_signals
from pgqpy.errors import ConnectionFailed
from pgqpy.pipeline.failure import PipelineFailed, find_cause
from pgqpy.pipeline.parse import EVENT_SCHEMA, read_schema
from pgqpy.pipeline.progress import Progress, QueueMonitor
from pgqpy.pipeline.session import spark_session
from pgqpy.pipeline.writer import MicroBatchWriter
from pgqpy.spark import finish, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pgqpy.pipeline.options import PipelineOptions

    Say = Callable[[str], None]

POLL_INTERVAL = 0.2  # seconds between checks of the query
MAX_DELAY = 30.0  # seconds between two attempts to connect


def run_query(options: PipelineOptions, dsn: str, say: Say) -> None:
    """Run the query until it has read everything (once), or until SIGTERM or SIGINT.

    Arguments and errors are those of `run_pipeline`.
    """
    with closing(QueueMonitor(dsn, options.queue)) as monitor:
        monitor.check()
        try:
            with spark_session(options) as spark, _checkpoint(options) as checkpoint:
                _QueryRunner(options, dsn, spark, checkpoint, monitor, say).run()
        except (Py4JNetworkError, ConnectionError) as exc:  # the connection to Java was lost
            raise PipelineFailed(
                "Spark's Java process has ended: PGQPY_DEBUG=1 shows more"
            ) from exc


class _QueryRunner:
    def __init__(
        self,
        options: PipelineOptions,
        dsn: str,
        spark: SparkSession,
        checkpoint: str,
        monitor: QueueMonitor,
        say: Say,
    ) -> None:
        register(spark)
        self._options = options
        self._dsn = dsn or None  # None: each process uses libpq's PG* variables
        self._spark = spark
        self._checkpoint = checkpoint
        self._monitor = monitor
        self._say = say
        self._schema = read_schema(options.schema) if options.schema else None
        self._progress = Progress(monitor, say)
        self._stop = threading.Event()

    def run(self) -> None:
        """Run the query, and again after each lost connection, until it ends without error."""
        self._say(self._options.describe())
        failures = 0
        with drain_on_signals(self._stop.set):
            while not self._stop.is_set():
                tick = self._progress.tick
                lost = self._run_once()
                if lost is None:
                    break
                failures = 1 if self._progress.tick != tick else failures + 1
                self._wait_for_server(lost, failures)
        if self._progress.tick is not None:  # else the checkpoint may be empty
            _finish(self._spark, self._checkpoint, self._dsn, self._say)
        self._progress.end()

    def _run_once(self) -> str | None:
        """Run the query until it ends; return the message of a lost connection, else None."""
        writer = MicroBatchWriter(self._options, self._schema, self._progress.add)
        try:
            query = self._start(writer)
            self._follow(query)
            error = writer.error or query.exception()
        except Py4JNetworkError:
            raise
        except (Py4JError, PySparkException) as exc:
            error = exc
        if self._stop.is_set() or error is None:
            return None
        cause = find_cause(str(error))
        if not cause.is_connection_loss:
            raise cause.error() from error
        return cause.message

    def _start(self, writer: MicroBatchWriter) -> StreamingQuery:
        reader = self._spark.readStream.format("pgq").schema(EVENT_SCHEMA)
        if self._dsn is not None:  # an option is sent inside the tasks, which are never printed
            reader = reader.option("dsn", self._dsn)
        events = reader.options(**self._options.source_options()).load()
        stream = events.writeStream.queryName(self._options.consumer).foreachBatch(writer)
        stream = stream.option("checkpointLocation", self._checkpoint)
        return stream.trigger(**self._options.trigger()).start()

    def _follow(self, query: StreamingQuery) -> None:
        """Report progress until the query ends or must stop."""
        while query.isActive and not self._stop.wait(POLL_INTERVAL):
            self._progress.report(query.lastProgress)
        query.stop()
        self._progress.report(query.lastProgress, at_once=True)

    def _wait_for_server(self, lost: str, failures: int) -> None:
        """Try to connect until it succeeds, with a longer delay after each failure."""
        self._monitor.close()
        while not self._stop.is_set():
            delay = min(MAX_DELAY, 2.0**failures / 2) * random.uniform(0.8, 1.2)
            self._say(f"connection lost ({lost}); trying again in {delay:.1f} s")
            self._stop.wait(delay)
            try:
                self._monitor.check()
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
def _checkpoint(options: PipelineOptions) -> Iterator[str]:
    """Yield the folder of the checkpoint. For the console it is temporary."""
    if options.checkpoint_path is not None:
        yield options.checkpoint_path
        return
    with tempfile.TemporaryDirectory(prefix="pgqpy-checkpoint-") as folder:
        yield folder
