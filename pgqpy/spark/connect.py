"""Connections: at once where a person waits, patiently where a server may just be restarting."""

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

from pgqpy.client._sync import connect_pinned
from pgqpy.errors import ConnectionFailed, NotSupported, SchemaMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.client import Client
    from pgqpy.spark.database import Place

T = TypeVar("T")
logger = logging.getLogger("pgqpy.spark")

PATIENCE = 30.0  # seconds for a server to come back
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds
SCHEMA_VERSION = 11  # the first with what this package calls


def patiently(action: Callable[[], T], lost: tuple[type[Exception], ...], place: Place) -> T:
    """Connect by `action`; again while the server cannot be reached, for `PATIENCE` seconds.

    Raises:
        ConnectionFailed: in one line, without a password. A wrong password is not tried again.
    """

    def attempt() -> T:
        try:
            return action()
        except lost as error:
            why = _diagnosis(place) or error
        raise why

    def passes(error: BaseException) -> bool:
        if isinstance(error, ConnectionFailed):
            return not _is_hopeless(error)
        return isinstance(error, lost)

    try:
        return persistent(passes, _say)(attempt)
    except ConnectionFailed as why:
        raise why from None


def persistent(
    passes: Callable[[BaseException], bool], before_sleep: Callable[[RetryCallState], None]
) -> Retrying:
    """Return what calls a function again after an error that passes, for `PATIENCE` seconds."""
    return Retrying(
        retry=retry_if_exception(passes),
        stop=stop_after_delay(PATIENCE),
        wait=wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE),
        before_sleep=before_sleep,
        reraise=True,
    )


def why_and_pause(state: RetryCallState) -> tuple[BaseException | None, float]:
    """Return what failed, and the seconds until it is tried again."""
    why = None if state.outcome is None else state.outcome.exception()
    return why, state.next_action.sleep if state.next_action else 0.0


def _say(state: RetryCallState) -> None:
    why, pause = why_and_pause(state)
    logger.info("no connection, again in %.1f s: %s", pause, why)


def _diagnosis(place: Place) -> ConnectionFailed | None:
    """Connect by psycopg, which says more; None if that works."""
    try:
        connect_pinned(place.dsn).close()
    except ConnectionFailed as why:
        return why
    return None


def _is_hopeless(why: ConnectionFailed) -> bool:
    """Say whether waiting will not help: the server asked for a password, and none was right."""
    cause = why.__cause__
    attempt = cause.pgconn if isinstance(cause, psycopg.Error) else None
    return cause is None or (
        attempt is not None and (bool(attempt.needs_password) or bool(attempt.used_password))
    )


def planner(place: Place, queue: str) -> Client:
    """Connect to plan something; the caller closes it.

    Raises:
        ConnectionFailed, SchemaMissing, NotSupported.
    """
    client = connect_pinned(place.dsn, fallback_application_name=f"pgqpy spark {queue}")
    try:
        check_schema(client)
    except BaseException:
        client.close()
        raise
    return client


def check_schema(client: Client) -> None:
    """Refuse a database without schema pgq, with an older one, or with the extension."""
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
