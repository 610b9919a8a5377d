"""Writing of a task's rows: one COPY in one transaction, which is a stage if exactly once."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql

from pgqpy import calls
from pgqpy.calls.produce import table_to_load
from pgqpy.errors import InvalidEvent, QueueRefused
from pgqpy.spark.connections import check_schema, connect_with_retries
from pgqpy.spark.sink import binary_copy
from pgqpy.spark.sink.fields import column_names, fields, split_batches
from pgqpy.spark.sink.fingerprint import combine, fingerprint
from pgqpy.sqlstates import translated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from pgqpy.client import Client
    from pgqpy.spark.sink.columns import EventColumns
    from pgqpy.spark.sink.options import SinkOptions


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
        SchemaMissing: the schema pgq is too old, or that of the extension pgq.
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
            check_schema(client)  # an older schema would show the events at once
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
            rows = binary_copy.rows([column for column in found if column is not None])
            if self._hashed:
                self.fingerprint = combine(
                    [self.fingerprint, fingerprint(rows, column_names(found))]
                )
            yield binary_copy.octets(rows)


def _copy(client: Client, options: SinkOptions, names: Sequence[str], rows: _Rows) -> None:
    row = client.connection.execute(PER_TX_LIMIT, [options.queue]).fetchone()
    limit = row[0] if row else None
    table = client.call(table_to_load(options.queue))
    statement = sql.SQL("copy {} ({}) from stdin with (format binary)").format(
        sql.SQL(table), sql.SQL(", ").join(map(sql.Identifier, names))
    )
    with _translate_errors(options.queue), client.connection.cursor().copy(statement) as copy:
        copy.write(binary_copy.START)
        for octets in rows:
            if limit is not None and rows.events > limit:
                raise QueueRefused(
                    f"queue {options.queue} accepts {limit} events per transaction, and this task "
                    "has more: repartition into more tasks, or raise the queue's per_tx_limit",
                    queue=options.queue,
                    sqlstate="PQ007",
                )
            copy.write(octets)
        copy.write(binary_copy.END)


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
