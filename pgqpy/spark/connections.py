"""The queue's database, connections of the driver and the executors, and their retries."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from pgqpy.client import connect_as_tool
from pgqpy.errors import ConnectionFailed, InvalidArgument
from pgqpy.settings import default_dsn

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.client import Client


class Database:
    """The database of the queue, from the option `dsn`, the option `service`, or neither.

    With neither, the driver and each executor read PGQPY_DSN or libpq's PG* variables of their own
    process, so that no password travels. The repr is empty, because plans and exceptions show it.
    """

    def __init__(self, dsn: str | None = None, service: str | None = None) -> None:
        if dsn is not None and service is not None:
            raise InvalidArgument(
                "options dsn and service exclude each other: give one of them", parameter="dsn"
            )
        self._dsn = dsn
        self._service = service

    def __repr__(self) -> str:
        return "Database(…)"

    @property
    def dsn(self) -> str:
        """The connection string, resolved in the process that calls this."""
        if self._service is not None:
            return make_conninfo(service=self._service)
        return default_dsn() if self._dsn is None else self._dsn


T = TypeVar("T")
logger = logging.getLogger("pgqpy.spark")

RETRY_TIMEOUT = 30.0  # seconds; time for a server to restart
FIRST_DELAY, MAX_DELAY = 0.1, 2.0  # seconds


def connect(database: Database, label: str) -> Client:
    """Connect to the database; ConnectionFailed if that fails.

    `label`, a queue or a consumer, is in the session's application_name.
    """
    return connect_as_tool(database.dsn, fallback_application_name=f"pgqpy spark {label}")


def connect_with_retries(database: Database, label: str) -> Client:
    """Connect like `connect`, and wait for a server that restarts."""
    return with_retries(lambda: connect(database, label))


def with_retries(action: Callable[[], T]) -> T:
    """Return the result of `action`, repeated for `RETRY_TIMEOUT` seconds without a connection.

    `action` connects, and is safe to repeat. A wrong password is not retried. ConnectionFailed is
    raised without its cause, which may quote the password.
    """
    try:
        return retrying(_may_pass, _log_retry)(action)
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


def _may_pass(error: BaseException) -> bool:
    """Return whether a retry may help: not with a wrong DSN, or a wrong or missing password."""
    if not isinstance(error, ConnectionFailed):
        return isinstance(error, psycopg.OperationalError)
    cause = error.__cause__
    if not isinstance(cause, psycopg.Error):
        return False  # the DSN is not valid
    attempt = cause.pgconn
    return attempt is None or not (attempt.needs_password or attempt.used_password)
