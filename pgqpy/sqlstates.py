"""The translation of PostgreSQL's errors into PgqError: the class of each SQLSTATE, the data."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy import errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BY_SQLSTATE: Mapping[str, type[errors.PgqError]] = {
    "PQ001": errors.QueueNotFound,
    "PQ002": errors.ConsumerNotFound,
    "PQ003": errors.BatchNotFound,
    "PQ004": errors.EventNotFound,
    "PQ005": errors.TickNotFound,
    "PQ006": errors.InsertDisabled,
    "PQ007": errors.TransactionLimitExceeded,
    "PQ008": errors.QueueInUse,
    "PQ009": errors.InvalidArgument,
    "PQ010": errors.UnknownParameter,
    "PQ011": errors.TickerPaused,
    "PQ012": errors.DatabaseRestored,
    "PQ013": errors.WrongIsolation,
    "PQ014": errors.InstallRefused,
    "PQ015": errors.CorruptQueue,
    "PQ016": errors.RangeExpired,
    "PQ017": errors.SubscriptionMoved,
    "PQ018": errors.StageLost,
    "PQ019": errors.EpochChanged,
    "PQ020": errors.WrongMode,
    "PQ021": errors.ConsumerRunning,
    "PQ022": errors.TooManyLeases,
    "PQ023": errors.CronNotFound,
    "PQ024": errors.ConsumerDetached,
    "26000": errors.PreparedStatementLost,  # the statement does not exist
    "42P05": errors.PreparedStatementLost,  # the statement exists already
    # PGQ's extension raises nothing finer: P0001 from its PL/pgSQL, XX000 from its C.
    "P0001": errors.PgqError,
    "XX000": errors.PgqError,
}

# Raised by a call if the schema or the function does not exist.
MISSING = frozenset({"3F000", "42883"})
VANISHED = "42P01"  # the call, a cursor or a COPY waited for drop_queue, which dropped the table
FUNCTION_MISSING = (
    "function pgq.{} is not installed in this database: "
    "run pgqpy schema install, or pgqpy schema upgrade if the schema is older than pgqpy"
)


def from_database(
    exc: psycopg.Error, function: str, data: Mapping[str, Any]
) -> errors.PgqError | None:
    """Translate an error that a call of `pgq.function` raised; None if it is not pgqpy's.

    `data` are the arguments of the call that identify its object: queue, consumer, batch_id, …
    """
    code = exc.sqlstate
    if code is None:
        return None
    if code == VANISHED:
        return errors.QueueNotFound(
            "the queue was dropped meanwhile", function=function, sqlstate=code, **data
        )
    if code in MISSING:
        message = FUNCTION_MISSING.format(function) if code == "42883" else None
        return errors.SchemaMissing(message, function=function, sqlstate=code)
    found = BY_SQLSTATE.get(code)
    if found is None:
        return None
    diag = exc.diag
    if text := _not_found_message(found, data, diag.message_detail or ""):
        return found(text, function=function, sqlstate=code, detail=diag.message_detail, **data)
    data = {**data, **_named_ticks(diag.message_detail or "")}
    detail = f" ({diag.message_detail})" if diag.message_detail else ""
    hint = diag.message_hint or found.what_to_do
    text = f"{diag.message_primary}{detail}" + (f": {hint}" if hint else "")
    return found(text, function=function, sqlstate=code, detail=diag.message_detail, **data)


@contextmanager
def translated(
    function: str, error_data: Mapping[str, object], *, ignored: Sequence[BaseException] = ()
) -> Iterator[None]:
    """Raise a PgqError for an error of PostgreSQL that `pgq.function` raised on purpose.

    Other errors pass unchanged, and so do those that are in `ignored` by then.
    """
    try:
        yield
    except psycopg.Error as exc:
        found = from_database(exc, function, error_data)
        if found is None or any(exc is each for each in ignored):
            raise
        raise found from exc


def _not_found_message(found: type[errors.PgqError], data: Mapping[str, Any], detail: str) -> str:
    """Return one wording for a missing queue or consumer, for PGQ has five; empty otherwise.

    The detail names a missing subconsumer, whose consumer is there: `subconsumer=1`.
    """
    queue, consumer = data.get("queue"), data.get("consumer")
    if found is errors.QueueNotFound and queue is not None:
        return f"{errors.QueueNotFound.words.format(queue=queue)}: {found.what_to_do}"
    if found is errors.ConsumerNotFound and queue is not None and consumer is not None:
        _, named, worker = detail.partition("subconsumer=")
        name = f"{consumer}.{worker}" if named else consumer
        words = errors.ConsumerNotFound.words.format(queue=queue, consumer=name)
        what_to_do = "register it with register_subconsumer" if named else found.what_to_do
        return f"{words}: {what_to_do}"
    return ""


def _named_ticks(detail: str) -> dict[str, int]:
    """Parse the ticks in an error's detail: `tick_id=3, first_tick=5, last_tick=9`."""
    found = re.findall(r"\b(tick_id|first_tick|last_tick)=(-?\d+)(?=, |$)", detail)
    return {name: int(tick) for name, tick in found}
