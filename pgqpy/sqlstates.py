"""The error class for each SQLSTATE, and the translation of what a call raised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pgqpy import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

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
    "26000": errors.PreparedStatementLost,  # it does not exist
    "42P05": errors.PreparedStatementLost,  # it exists already
    # The real extension raises nothing finer: P0001 from its PL/pgSQL, XX000 from its C.
    "P0001": errors.PgqError,
    "XX000": errors.PgqError,
}

# What PostgreSQL says of pgq.anything() where there is no schema, no table or no function.
MISSING = frozenset({"3F000", "42P01", "42883"})
# And inside a function of ours, which has a context: it waited for drop_queue, and the table went.
VANISHED = "42P01"


def from_database(
    exc: psycopg.Error, function: str, data: Mapping[str, Any]
) -> errors.PgqError | None:
    """Turn what a call of `pgq.function` raised into an error of ours; None if it is not one.

    Args:
        exc: what psycopg raised.
        function: the SQL function that was called, without its schema.
        data: what the caller knows: queue, consumer, batch_id and so on.
    """
    code = exc.sqlstate
    if code is None:
        return None
    if code == VANISHED and exc.diag.context:
        return errors.QueueNotFound(
            "the queue was dropped meanwhile", function=function, sqlstate=code, **data
        )
    if code in MISSING:
        return _missing(code, function)
    found = BY_SQLSTATE.get(code)
    if found is None:
        return None
    diag = exc.diag
    if words := _words(found, data):
        text = f"{words}: {found.what_to_do}"
        return found(text, function=function, sqlstate=code, detail=diag.message_detail, **data)
    data = {**data, **_named_ticks(diag.message_detail or "")}
    message = diag.message_primary or found.__doc__ or ""
    if diag.message_detail:
        message = f"{message} ({diag.message_detail})"
    hint = diag.message_hint or found.what_to_do
    text = f"{message}: {hint}" if hint else message
    return found(text, function=function, sqlstate=code, detail=diag.message_detail, **data)


def _words(found: type[errors.PgqError], data: Mapping[str, Any]) -> str:
    """Return our words for a missing queue or consumer, where PGQ has five; empty if unknown."""
    queue, consumer = data.get("queue"), data.get("consumer")
    if found is errors.QueueNotFound and queue is not None:
        return errors.QueueNotFound.words.format(queue=queue)
    if found is errors.ConsumerNotFound and queue is not None and consumer is not None:
        return errors.ConsumerNotFound.words.format(queue=queue, consumer=consumer)
    return ""


def _named_ticks(detail: str) -> dict[str, int]:
    """Read the ticks that a detail carries as data: `tick_id=3, first_tick=5, last_tick=9`."""
    found = re.findall(r"\b(tick_id|first_tick|last_tick)=(-?\d+)(?=, |$)", detail)
    return {name: int(tick) for name, tick in found}


def _missing(code: str, function: str) -> errors.SchemaMissing:
    if code == "42883":
        message = (
            f"function pgq.{function} is not installed in this database: "
            "run pgqpy schema install, or pgqpy schema upgrade if the schema is older than pgqpy"
        )
        return errors.SchemaMissing(message, function=function, sqlstate=code)
    return errors.SchemaMissing(function=function, sqlstate=code)
