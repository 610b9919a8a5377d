"""Writers: a DataFrame's rows become events, once.

Each task inserts in a transaction of its own. Exactly once, that is a stage: its events wait until
the driver commits the stages of the successful attempts, in one transaction with the ledger (see
open_stage and commit_stage). An epoch that Spark repeats, because it was killed before it wrote
down that it was done, is refused there.

Spark commits by a writer that it makes anew, so messages carry all that the commit needs.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pgqpy.errors import PgqError
from pgqpy.spark.connect import with_retries
from pgqpy.spark.sink.columns import check_packable, event_columns
from pgqpy.spark.sink.fingerprint import combine
from pgqpy.spark.sink.load import NOTHING, Attempt, WriteId, connected, load
from pgqpy.spark.sink.options import refuse_overwrite, sink_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgqpy.spark.sink.columns import EventColumns
    from pgqpy.spark.sink.options import SinkOptions

logger = logging.getLogger("pgqpy.spark")
QUERY, EPOCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    write_id: WriteId | None  # None: at least once
    attempt: Attempt


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame as a whole: all of its rows or, if a task fails for good, none."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = sink_options(options)
        self.columns = _columns(schema, self.options.event_type)
        once = WriteId(f"write {uuid.uuid4()}", None)
        self.write_id = once if self.options.exactly_once else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write what one task has."""
        attempt = load(self.options, self.columns, self.write_id, iterator)
        return TaskMessage(self.write_id, attempt)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Give away all that was staged."""
        commit_stages(self.options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  # Spark's
        """Give up what was staged."""
        drop_stages(self.options, self.write_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, each once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = sink_options(options)
        self.columns = _columns(schema, self.options.event_type)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write what one task of a micro-batch has."""
        write_id = _stream_write_id() if self.options.exactly_once else None
        return TaskMessage(write_id, load(self.options, self.columns, write_id, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """Give away all that was staged for the epoch; nothing if that was done before."""
        commit_stages(self.options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """Give up what was staged, as far as a message tells whose it is."""
        task_messages = _task_messages(messages)
        drop_stages(self.options, task_messages[0].write_id if task_messages else None)


def batch_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: FBT001  # as Spark calls it
) -> BatchWriter:
    """Make the writer of `df.write.format("pgq")`.

    Raises:
        InvalidArgument: an option or a column makes no sense; says what to do.
    """
    refuse_overwrite(overwrite=overwrite)
    return BatchWriter(options, schema)


def stream_writer(
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,  # noqa: FBT001  # as Spark calls it
) -> StreamWriter:
    """Make the writer of `df.writeStream.format("pgq")`; raises as `batch_writer`."""
    refuse_overwrite(overwrite=overwrite)
    return StreamWriter(options, schema)


def commit_stages(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Commit once. If the connection breaks, say it again: the ledger knows whether it was done.

    Raises:
        StageLost: the stages do not wait any more. Spark fails, and repeats the epoch.
        EpochChanged: the epoch was committed with other rows, or a later one was.
    """
    task_messages = [message for message in _task_messages(messages) if message.attempt != NOTHING]
    write_id = task_messages[0].write_id if task_messages else None
    if write_id is None:  # nothing was written, or the tasks gave it away: at least once
        return
    attempts = [message.attempt for message in task_messages]
    stages = [attempt.stage for attempt in attempts if attempt.stage is not None]
    events = sum(attempt.events for attempt in attempts)
    compared = options.fail_on_changed_epoch and write_id.epoch is not None
    sums = combine(attempt.fingerprint for attempt in attempts) if compared else None
    done_before = len(stages) < len(attempts)  # a task found it in the ledger

    def once() -> int:
        done = 0
        with connected(options) as client, client.transaction():
            done = client.commit_stage(options.queue, *write_id, stages, events, sums)
            if done and done_before:  # the ledger has lost it since, and the stages are not all
                raise psycopg.Rollback
        return 0 if done_before else done

    if not with_retries(once, (psycopg.OperationalError,), options.database):
        _warn_repeated(options, write_id)
        if done_before:
            drop_stages(options, write_id)


def drop_stages(options: SinkOptions, write_id: WriteId | None) -> None:
    """Give the stages up. Those that cannot be reached now are left to maint_stages.

    A batch write never comes back: what a task of it stages later is of an epoch that is done.
    """
    if write_id is None:
        return
    try:
        with connected(options) as client:
            client.drop_stage(options.queue, write_id.writer)
            if write_id.epoch is None:
                client.commit_stage(options.queue, *write_id, [], 0)
    except (PgqError, psycopg.Error) as exc:
        logger.warning("the stages of %s are left to maintenance: %s", write_id.writer, exc)


def _warn_repeated(options: SinkOptions, write_id: WriteId) -> None:
    logger.warning(
        "queue %s has epoch %s of %s already: nothing was inserted",
        options.queue,
        write_id.epoch,
        write_id.writer,
    )


def _task_messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [message for message in messages if isinstance(message, TaskMessage)]


def _stream_write_id() -> WriteId:
    """Ask Spark which epoch of which query this task belongs to: no argument tells it."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY) if context else None
    epoch = context.getLocalProperty(EPOCH) if context else None
    if not query or epoch is None:
        raise PgqError("Spark does not tell a task its query and epoch: write with foreachBatch")
    return WriteId(query, int(epoch))


def _columns(schema: StructType, event_type: str | None) -> EventColumns:
    kinds = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    columns = event_columns(kinds, event_type)
    for number, name in columns.packed:
        check_packable(name, schema.fields[number].dataType)
    return columns
