"""The writers: insert the rows of a DataFrame as events, exactly once.

Each task inserts in a transaction of its own. In the mode exactly_once this transaction is a stage
(no stage of a Spark job: one task's transaction). Its events stay hidden until the driver commits
the stages of the successful attempts in one transaction with the ledger (see open_stage and
commit_stage). If the driver is killed after that and before Spark's own commit, Spark repeats the
epoch, and the ledger passes it over.

Spark calls commit on a new writer, so the messages contain everything that the commit needs.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pgqpy import calls
from pgqpy.calls.produce import table_to_load
from pgqpy.errors import InvalidEvent, PgqError, QueueRefused, StageLost
from pgqpy.spark.connections import connect, connect_with_retries, with_retries
from pgqpy.spark.options import sink_options
from pgqpy.spark.sink.rows import (
    COPY_END,
    COPY_START,
    column_names,
    combine,
    copy_octets,
    copy_rows,
    event_columns,
    fields,
    fingerprint,
    split_batches,
)
from pgqpy.sqlstates import translated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.spark.options import SinkOptions
    from pgqpy.spark.sink.rows import EventColumns

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # the prefixes do differ


class WriteId(NamedTuple):
    """The identity of a write: a streaming query and its epoch, or a batch write without epoch."""

    writer: str
    epoch: int | None


class Attempt(NamedTuple):
    """The result of one attempt of a task. `stage` is None if no stage was opened."""

    stage: int | None
    events: int = 0
    fingerprint: int = 0  # of the events, if the write has an epoch


NOTHING = Attempt(None)
PER_TX_LIMIT = "select queue_per_tx_limit from pgq.queue where queue_name = %s"


def load(
    options: SinkOptions,
    columns: EventColumns,
    write_id: WriteId | None,
    batches: Iterable[pa.RecordBatch],
) -> Attempt:
    """Insert the batches in one transaction, as a stage of `write_id` if there is one.

    If the ledger has the epoch already, insert nothing and return an attempt without a stage. The
    driver then compares its fingerprint with the one in the ledger.

    Raises:
        ConnectionFailed: the server cannot be reached.
        SchemaMissing: the schema pgq is not there, or that of the extension pgq.
        InvalidEvent, QueueNotFound, QueueRefused: nothing was inserted.
    """
    some = split_batches(batches)
    first = next(some, None)
    if first is None:
        return NOTHING
    rows = _Rows(
        columns, chain([first], some), hashed=bool(write_id and write_id.epoch is not None)
    )
    connection = connect_with_retries(options.database, options.queue)
    with connection as client, client.transaction():
        stage = None
        if write_id:
            stage = client.call(calls.produce.open_stage(options.queue, *write_id))
        if stage is not None or not write_id:
            _copy(client, options, column_names(fields(columns, first)), rows)
            return Attempt(stage, rows.events, rows.fingerprint)
    for _ in rows:  # Spark expects that all rows are read
        pass
    return Attempt(None, rows.events, rows.fingerprint)


class _Rows:
    """The rows of a task in the format of binary COPY, with their number and fingerprint."""

    def __init__(
        self, columns: EventColumns, batches: Iterable[pa.RecordBatch], *, hashed: bool
    ) -> None:
        self._columns = columns
        self._batches = batches
        self._hashed = hashed
        self.events = 0
        self.fingerprint = 0

    def __iter__(self) -> Iterator[memoryview]:
        for batch in self._batches:
            self.events += batch.num_rows
            found = fields(self._columns, batch)
            rows = copy_rows([column for column in found if column is not None])
            if self._hashed:
                self.fingerprint = combine(
                    [self.fingerprint, fingerprint(rows, column_names(found))]
                )
            yield copy_octets(rows)


def _copy(client: Client, options: SinkOptions, names: Sequence[str], rows: _Rows) -> None:
    row = client.connection.execute(PER_TX_LIMIT, [options.queue]).fetchone()
    limit = row[0] if row else None
    table = client.call(table_to_load(options.queue))
    statement = sql.SQL("copy {} ({}) from stdin with (format binary)").format(
        sql.SQL(table), sql.SQL(", ").join(map(sql.Identifier, names))
    )
    with _translate_errors(options.queue), client.connection.cursor().copy(statement) as copy:
        copy.write(COPY_START)
        for octets in rows:
            if limit is not None and rows.events > limit:
                raise QueueRefused(
                    f"queue {options.queue} accepts {limit} events per transaction, and this task "
                    "has more: repartition into more tasks, or raise the queue's per_tx_limit",
                    queue=options.queue,
                    sqlstate="PQ007",
                )
            copy.write(octets)
        copy.write(COPY_END)


@contextmanager
def _translate_errors(queue: str) -> Iterator[None]:
    """Translate the errors of COPY, those about a row's text to InvalidEvent."""
    refused = psycopg.errors.CharacterNotInRepertoire, psycopg.errors.UntranslatableCharacter
    with translated("current_event_table", {"queue": queue}):
        try:
            yield
        except refused as exc:
            raise InvalidEvent(
                f"a text of a row cannot be stored, {exc.diag.message_primary}: decode it first, "
                "or send base64",
                sqlstate=exc.sqlstate,
            ) from exc


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
        StageLost: PQ018, a stage was dropped, or the ledger lost the epoch after a task found it
            there: the query fails, and a restart repeats the epoch. PQ019, the ledger has the epoch
            with other rows, or a later epoch.
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
    return event_columns(kinds, event_type)
