"""Connections of the driver and the executors, retries, and the check of the schema version."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import psycopg
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from pgqpy.client import connect_pinned
from pgqpy.errors import ConnectionFailed, NotSupported, SchemaMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.client import Client
    from pgqpy.spark.database import Database

T = TypeVar("T")
logger = logging.getLogger("pgqpy.spark")

RETRY_TIMEOUT = 30.0  # seconds; time for a server to restart
FIRST_DELAY, MAX_DELAY = 0.1, 2.0  # seconds
SCHEMA_VERSION = 1  # the first with all functions that this package calls


def with_retries(
    action: Callable[[], T], lost: tuple[type[Exception], ...], database: Database
) -> T:
    """Return the result of `action`, repeated for `RETRY_TIMEOUT` seconds if it cannot connect.

    Args:
        action: connects; safe to repeat.
        lost: the exceptions that it raises for a failed or lost connection.
        database: what it connects to, for a better message than that of ADBC.

    Raises:
        ConnectionFailed: in one line, without a password. A wrong password is not retried.
    """

    def attempt() -> T:
        try:
            return action()
        except lost as error:
            reason = _diagnosis(database) or error
        raise reason

    def passes(error: BaseException) -> bool:
        if isinstance(error, ConnectionFailed):
            return not _is_password_error(error)
        return isinstance(error, lost)

    try:
        return retrying(passes, _log_retry)(attempt)
    except ConnectionFailed as error:
        raise error from None


def retrying(
    passes: Callable[[BaseException], bool], before_sleep: Callable[[RetryCallState], None]
) -> Retrying:
    """Return a policy that retries errors accepted by `passes`, for `RETRY_TIMEOUT` seconds."""
    return Retrying(
        retry=retry_if_exception(passes),
        stop=stop_after_delay(RETRY_TIMEOUT),
        wait=wait_random_exponential(multiplier=FIRST_DELAY, max=MAX_DELAY),
        before_sleep=before_sleep,
        reraise=True,
    )


def error_and_delay(state: RetryCallState) -> tuple[BaseException | None, float]:
    """Return the last error, and the seconds until the next attempt."""
    error = None if state.outcome is None else state.outcome.exception()
    return error, state.next_action.sleep if state.next_action else 0.0


def _log_retry(state: RetryCallState) -> None:
    error, delay = error_and_delay(state)
    logger.info("no connection, trying again in %.1f s: %s", delay, error)


def _diagnosis(database: Database) -> ConnectionFailed | None:
    """Connect with psycopg, whose errors are more precise, and return the error, if any."""
    try:
        connect_pinned(database.dsn).close()
    except ConnectionFailed as error:
        return error
    return None


def _is_password_error(error: ConnectionFailed) -> bool:
    """Return whether the server rejected or lacked a password, which a retry does not change."""
    cause = error.__cause__
    attempt = cause.pgconn if isinstance(cause, psycopg.Error) else None
    return cause is None or (
        attempt is not None and (bool(attempt.needs_password) or bool(attempt.used_password))
    )


def connect_planner(database: Database, queue: str) -> Client:
    """Connect from the driver to plan a read. The caller closes the client.

    Raises:
        ConnectionFailed, SchemaMissing, NotSupported.
    """
    client = connect_pinned(database.dsn, fallback_application_name=f"pgqpy spark {queue}")
    try:
        check_schema(client)
    except BaseException:
        client.close()
        raise
    return client


def check_schema(client: Client) -> None:
    """Raise unless the schema pgq is pgqpy's own and new enough.

    Raises:
        SchemaMissing: the schema is too old.
        NotSupported: the schema belongs to the original extension.
    """
    version = client.schema_version()
    if version is None:
        raise NotSupported(
            "the extension pgq in this database lacks what Spark needs: pgqpy's schema has it",
            function="tick_event_sql",
        )
    if version < SCHEMA_VERSION:
        raise SchemaMissing(
            f"the schema pgq in this database is version {version}, Spark needs "
            f"{SCHEMA_VERSION} or later: run pgqpy schema upgrade"
        )
