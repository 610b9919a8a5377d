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
    "PQ003": errors.BatchLost,
    "PQ004": errors.NotFound,  # an event
    "PQ005": errors.NotFound,  # a tick
    "PQ006": errors.QueueRefused,  # inserting is off
    "PQ007": errors.QueueRefused,  # too many events of one transaction
    "PQ008": errors.QueueInUse,
    "PQ009": errors.InvalidArgument,
    "PQ010": errors.InvalidArgument,  # no such setting
    "PQ011": errors.QueueRefused,  # the ticker is paused or external
    "PQ012": errors.DatabaseRestored,
    "PQ013": errors.WrongTransaction,  # not READ COMMITTED
    "PQ014": errors.SchemaRefused,
    "PQ015": errors.DatabaseRestored,  # the tick at a consumer's position is gone
    "PQ016": errors.RangeExpired,
    "PQ017": errors.ConsumerRunning,  # it is not at the expected tick
    "PQ018": errors.StageLost,
    "PQ019": errors.StageLost,  # the epoch was committed with other events
    "PQ020": errors.WrongMode,
    "PQ021": errors.ConsumerRunning,
    "PQ023": errors.NotFound,  # a cron entry
    "PQ024": errors.ConsumerDetached,
    "PQ025": errors.LeaseLost,
    "PQ026": errors.QueueNotFound,  # it was renamed
    "26000": errors.ConnectionFailed,  # the prepared statement does not exist
    "42P05": errors.ConnectionFailed,  # it exists already
    # PGQ's extension raises nothing finer: P0001 from its PL/pgSQL, XX000 from its C.
    "P0001": errors.PgqError,
    "XX000": errors.PgqError,
}

_PREPARED_LOST = (
    "the connection has a new server session, behind a pooler, without prepared statements: "
    "connect with prepare_threshold=None, through PgBouncer 1.22 or later with "
    "max_prepared_statements, or directly to the server"
)

PREPARED = frozenset({"26000", "42P05"})  # asyncpg has a hint of its own, psycopg2 prepares nothing

# What to do, where it is not what the class says. A hint of the server has precedence.
WHAT_TO_DO: Mapping[str, str] = {
    "PQ003": "",
    "PQ013": "begin the transaction with ISOLATION LEVEL READ COMMITTED",
    "PQ015": "",
    "PQ017": "give each reader a consumer of its own",
    "PQ019": "restore the newer checkpoint, or start under a new writer name (Spark: a new "
    "checkpointLocation)",
    "26000": _PREPARED_LOST,
    "42P05": _PREPARED_LOST,
}

NO_SCHEMA = "3F000"
# By a call whose function the schema lacks, or the table `registration`.
MISSING = frozenset({NO_SCHEMA, "42883", "42P01"})
VANISHED = "42P01"  # the call, a cursor or a COPY waited for drop_queue, which dropped the table
FUNCTION_MISSING = (
    "pgq.{} is not installed in this database: run pgqpy schema install, which upgrades too "
    "(the extension pgq lacks it)"
)


def from_database(exc: Exception, function: str, data: Mapping[str, Any]) -> errors.PgqError | None:
    """Translate an error that a call of `pgq.function` raised; None if it is not pgqpy's.

    `exc` is psycopg's, psycopg2's or asyncpg's. `data` are the arguments of the call that identify
    its object: queue, consumer, batch_id, …
    """
    code, message, its_detail, hint = _fields(exc)
    if code is None:
        return None
    if code in (VANISHED, NO_SCHEMA) and "table" in data:
        what = f"no table {data['table']}: write schema.table, quoted where SQL needs it"
        return errors.InvalidArgument(what, function=function, sqlstate=code, **data)
    if code == VANISHED and function != "registration":
        return errors.QueueNotFound(
            "the queue was dropped meanwhile", function=function, sqlstate=code, **data
        )
    if code in MISSING:
        message = None if code == NO_SCHEMA else FUNCTION_MISSING.format(function)
        return errors.SchemaMissing(message, function=function, sqlstate=code)
    found = BY_SQLSTATE.get(code)
    if found is None or (code in PREPARED and not isinstance(exc, psycopg.Error)):
        return None
    detail = its_detail or ""
    what, what_to_do = _not_found(code, data)
    if not what:
        data = {**data, **_named_ticks(detail)}
        what = f"{message} ({detail})" if detail else f"{message}"
        what_to_do = hint or WHAT_TO_DO.get(code, found.what_to_do)
    text = f"{what}: {what_to_do}" if what_to_do else what
    more = {"sqlstate": code, "detail": its_detail, "what_to_do": what_to_do}
    return found(text, function=function, **more, **data)


def _fields(exc: Any) -> tuple[str | None, ...]:
    """Return SQLSTATE, message, detail and hint of an error, as its driver names them."""
    if not hasattr(exc, "diag"):  # asyncpg's, or an error that no server sent
        return tuple(getattr(exc, name, None) for name in ("sqlstate", "message", "detail", "hint"))
    diag = exc.diag
    code = exc.sqlstate if isinstance(exc, psycopg.Error) else exc.pgcode
    return code, diag.message_primary, diag.message_detail, diag.message_hint


@contextmanager
def translated(
    function: str,
    error_data: Mapping[str, object],
    *,
    ignored: Sequence[BaseException] = (),
    kind: type[Exception] = psycopg.Error,
) -> Iterator[None]:
    """Raise a PgqError for an error of PostgreSQL that `pgq.function` raised on purpose.

    `kind` is the class of the driver's errors. Others pass unchanged, and so do those that are in
    `ignored` by then.
    """
    try:
        yield
    except kind as exc:
        found = from_database(exc, function, error_data)
        if found is None or any(exc is each for each in ignored):
            raise
        raise found from exc


def _not_found(code: str, data: Mapping[str, Any]) -> tuple[str, str]:
    """Return one wording for a missing queue or consumer, for PGQ has five; else empty texts."""
    queue, consumer = data.get("queue"), data.get("consumer")
    found = BY_SQLSTATE[code]
    if code == "PQ001" and queue is not None:
        return found.words.format(queue=queue), found.what_to_do
    if code == "PQ002" and queue is not None and consumer is not None:
        return found.words.format(queue=queue, consumer=consumer), found.what_to_do
    return "", ""


def _named_ticks(detail: str) -> dict[str, int]:
    """Parse the ticks in an error's detail: `tick_id=3, first_tick=5, last_tick=9`."""
    found = re.findall(r"\b(tick_id|first_tick|last_tick)=(-?\d+)(?=, |$)", detail)
    return {name: int(tick) for name, tick in found}
