"""What a task does: its batches into a stage, or straight into the queue. Each by one COPY."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql

import pgqpy
from pgqpy.calls.produce import table_to_load
from pgqpy.client._translate import translated
from pgqpy.errors import ConnectionFailed, InvalidEvent, TransactionLimitExceeded
from pgqpy.spark import sink_binary as binary
from pgqpy.spark.connect import patiently
from pgqpy.spark.sink_fields import fields, names_of, pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from pgqpy.client import Client
    from pgqpy.spark.sink_columns import EventColumns
    from pgqpy.spark.sink_options import SinkOptions

STAGED = "attempt, piece, ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s"


class Writing(NamedTuple):
    """Who writes: a Spark query with its epoch, or a batch write, which has none."""

    writer: str
    epoch: int | None


class Attempt(NamedTuple):
    """What one attempt of a task wrote. `id` is None where there was nothing to write."""

    id: uuid.UUID | None
    events: int


NOTHING = Attempt(None, 0)


@contextmanager
def connected(options: SinkOptions) -> Iterator[Client]:
    """Connect, patiently; close at the end. ConnectionFailed if it cannot be."""
    place = options.place
    keywords = place.keywords(f"pgqpy spark {options.queue}")
    client = patiently(lambda: pgqpy.connect(place.dsn, **keywords), (ConnectionFailed,), place)
    with client:
        client.connection.execute("set client_encoding to 'UTF8'")  # what Arrow holds
        yield client


def stage(
    options: SinkOptions,
    columns: EventColumns,
    writing: Writing,
    batches: Iterable[pa.RecordBatch],
) -> Attempt | None:
    """Fill the writer's stage; None if the epoch is committed already."""
    some = pieces(batches)
    first = next(some, None)
    if first is None:
        return NOTHING
    with connected(options) as client:
        table = client.open_stage(options.queue, *writing)
        if table is None:
            for _ in some:  # Spark wants its rows read to the end
                pass
            return None
        attempt, events = uuid.uuid4(), 0
        statement = _copy(table, STAGED)
        with _refusing(options.queue), client.connection.cursor().copy(statement) as copy:
            copy.write(binary.START)
            for number, batch in enumerate(chain([first], some)):
                for octets in binary.piece(attempt, number, fields(columns, batch)):
                    copy.write(octets)
                events += batch.num_rows
            copy.write(binary.END)
    return Attempt(attempt, events)


def insert(
    options: SinkOptions, columns: EventColumns, batches: Iterable[pa.RecordBatch]
) -> Attempt:
    """Insert into the queue in a transaction of the task's own: once it ends, it is done."""
    some = pieces(batches)
    first = next(some, None)
    if first is None:
        return NOTHING
    with connected(options) as client, client.transaction():
        events, limit = 0, _limit(client, options.queue)
        call = table_to_load(options.queue)
        table = client._run(call)  # noqa: SLF001  # the client's own copies text
        found = fields(columns, first)
        statement = _copy(table, ", ".join(names_of(found)))
        with _refusing(options.queue), client.connection.cursor().copy(statement) as copy:
            copy.write(binary.START)
            for batch in chain([first], some):
                events += batch.num_rows
                if limit is not None and events > limit:
                    raise _too_many(options.queue, limit)
                found = fields(columns, batch) if batch is not first else found
                copy.write(binary.rows([column for column in found if column is not None]))
            copy.write(binary.END)
    return Attempt(None, events)


def _copy(table: str, columns: str) -> sql.Composed:
    statement = sql.SQL("copy {} ({}) from stdin with (format binary)")
    return statement.format(sql.SQL(table), sql.SQL(columns))


def _limit(client: Client, queue: str) -> int | None:
    query = "select queue_per_tx_limit from pgq.queue where queue_name = %s"
    row = client.connection.execute(query, [queue]).fetchone()
    return row[0] if row else None


def _too_many(queue: str, limit: int) -> TransactionLimitExceeded:
    return TransactionLimitExceeded(
        f"queue {queue} takes {limit} events from one transaction, and this task has more: "
        "repartition into more tasks, or raise the queue's per_tx_limit",
        queue=queue,
    )


@contextmanager
def _refusing(queue: str) -> Iterator[None]:
    """Say which of PostgreSQL's errors are about the rows."""
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
