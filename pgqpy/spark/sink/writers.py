"""The writers: insert the rows of a DataFrame as events, exactly once.

Each task inserts in a transaction of its own. In the mode exactly_once this transaction is a stage
(no stage of a Spark job: one task's transaction). Its events stay hidden until the driver commits
the stages of the successful attempts in one transaction with the ledger (see open_stage and
commit_stage). If the driver is killed after that
and before Spark's own commit, Spark repeats the epoch, and the ledger passes it over.

Spark calls commit on a new writer, so the messages contain everything that the commit needs.
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

from pgqpy import calls
from pgqpy.errors import PgqError, StageLost
from pgqpy.spark.connections import connect, connect_with_retries, with_retries
from pgqpy.spark.local_properties import BATCH_ID, QUERY_ID
from pgqpy.spark.sink.columns import check_packable, event_columns
from pgqpy.spark.sink.fingerprint import combine
from pgqpy.spark.sink.options import sink_options
from pgqpy.spark.sink.write_task import NOTHING, Attempt, WriteId, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgqpy.spark.sink.columns import EventColumns
    from pgqpy.spark.sink.options import SinkOptions

logger = logging.getLogger("pgqpy.spark")


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """The message from a task to the driver."""

    write_id: WriteId | None  # None in the mode at_least_once
    attempt: Attempt


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame: all of its rows or, if a task fails for good, none."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = sink_options(options)
        self.columns = _columns(schema, self.options.event_type)
        own_id = WriteId(f"write {uuid.uuid4()}", None)
        self.write_id = own_id if self.options.exactly_once else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task."""
        attempt = load(self.options, self.columns, self.write_id, iterator)
        return TaskMessage(self.write_id, attempt)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the stages of all tasks."""
        commit_stages(self.options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002  # Spark's
        """Drop the stages of all tasks."""
        drop_stages(self.options, self.write_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, each exactly once."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = sink_options(options)
        self.columns = _columns(schema, self.options.event_type)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task of a micro-batch."""
        write_id = _stream_write_id() if self.options.exactly_once else None
        return TaskMessage(write_id, load(self.options, self.columns, write_id, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """Commit the stages of the epoch, unless the ledger has the epoch already."""
        commit_stages(self.options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803  # Spark's
        """Drop the stages of the query, if a message names it."""
        task_messages = _task_messages(messages)
        drop_stages(self.options, task_messages[0].write_id if task_messages else None)


def commit_stages(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Commit the stages that the messages name.

    After a lost connection it is tried again. That is safe: the ledger knows whether it was done.

    Raises:
        StageLost: a stage was dropped, or the ledger lost the epoch after a task found it there.
            The query fails, and a restart repeats the epoch.
        StageLost: the ledger has the epoch with other rows, or a later epoch.
    """
    task_messages = [message for message in _task_messages(messages) if message.attempt != NOTHING]
    write_id = task_messages[0].write_id if task_messages else None
    if write_id is None:  # no rows, or the mode at_least_once, without stages
        return
    attempts = [message.attempt for message in task_messages]
    stages = [attempt.stage for attempt in attempts if attempt.stage is not None]
    events = sum(attempt.events for attempt in attempts)
    compared = options.fail_on_changed_epoch and write_id.epoch is not None
    sums = combine(attempt.fingerprint for attempt in attempts) if compared else None
    done_before = len(stages) < len(attempts)  # a task found the epoch in the ledger

    def commit() -> int:
        with connect(options.database, options.queue) as client, client.transaction():
            done = client.call(
                calls.produce.commit_stage(options.queue, *write_id, stages, events, sums)
            )
            if done and done_before:  # that task inserted nothing: its events would be lost
                raise StageLost(
                    f"the ledger of queue {options.queue} has lost epoch {write_id.epoch} of "
                    f"{write_id.writer} since a task found it there: write the epoch again",
                    queue=options.queue,
                )
        return done

    if not with_retries(commit):
        message = "epoch %s of %s is in queue %s: not inserted again"
        logger.warning(message, write_id.epoch, write_id.writer, options.queue)
        if done_before:
            drop_stages(options, write_id)


def drop_stages(options: SinkOptions, write_id: WriteId | None) -> None:
    """Drop the stages of a write. If the server cannot be reached, maint_stages drops them later.

    For a batch write, also write the ledger's row: a late task of it then finds the write done, and
    inserts nothing.
    """
    if write_id is None:
        return
    try:
        with connect_with_retries(options.database, options.queue) as client:
            client.call(calls.produce.drop_stage(options.queue, write_id.writer))
            if write_id.epoch is None:
                client.call(calls.produce.commit_stage(options.queue, *write_id, [], 0))
    except (PgqError, psycopg.Error) as exc:
        logger.warning("the stages of %s are left to maintenance: %s", write_id.writer, exc)


def _task_messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [message for message in messages if isinstance(message, TaskMessage)]


def _stream_write_id() -> WriteId:
    """Return the query and epoch of this task, from Spark's local properties."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_ID) if context else None
    epoch = context.getLocalProperty(BATCH_ID) if context else None
    if not query or epoch is None:
        raise PgqError("this Spark passes no query id and epoch to tasks: write with foreachBatch")
    return WriteId(query, int(epoch))


def _columns(schema: StructType, event_type: str | None) -> EventColumns:
    kinds = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    columns = event_columns(kinds, event_type)
    for number, name in columns.packed:
        check_packable(name, schema.fields[number].dataType)
    return columns
