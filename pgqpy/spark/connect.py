"""Connections: at once where a person waits, patiently where a server may just be restarting."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, TypeVar

import psycopg

import pgqpy
from pgqpy.errors import ConnectionFailed, NotSupported, SchemaMissing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.client import Client
    from pgqpy.spark.dsn import Place

T = TypeVar("T")
logger = logging.getLogger("pgqpy.spark")

PATIENCE = 30.0  # seconds for a server to come back
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds
SCHEMA_VERSION = 9  # the first with what this package calls


def patiently(action: Callable[[], T], lost: tuple[type[Exception], ...], place: Place) -> T:
    """Connect by `action`; again while the server cannot be reached, for `PATIENCE` seconds.

    Raises:
        ConnectionFailed: in one line, without a password. A wrong password is not tried again.
    """
    deadline = time.monotonic() + PATIENCE
    pause = FIRST_PAUSE
    while True:
        try:
            return action()
        except lost as error:
            why = _diagnosis(place)
            if why is None and time.monotonic() > deadline:
                raise
            if why is not None and (_is_hopeless(why) or time.monotonic() > deadline):
                raise why from None
            logger.info("no connection, again in %.1f s: %s", pause, why or type(error).__name__)
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(pause * 2, LONGEST_PAUSE)


def _diagnosis(place: Place) -> ConnectionFailed | None:
    """Connect by psycopg, which says more; None if that works."""
    try:
        pgqpy.connect(place.dsn).close()
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
    client = pgqpy.connect(place.dsn, **place.keywords(f"pgqpy spark {queue}"))
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
