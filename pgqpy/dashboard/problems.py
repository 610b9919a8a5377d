"""Errors of pages as a status and a text for the browser."""

from __future__ import annotations

import logging
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.errors import (
    ConsumerRunning,
    InvalidArgument,
    NotFound,
    PgqError,
    RangeExpired,
    WrongMode,
)
from pgqpy.texts import describe, error_text

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


class NotYet(Exception):
    """The database has not answered since the dashboard began."""


def explain(exc: Exception) -> tuple[HTTPStatus, str]:
    """Return the status and the text of an error, for the browser."""
    known: tuple[tuple[Any, HTTPStatus, Callable[[Exception], str]], ...] = (
        (
            (NotFound, RangeExpired),
            HTTPStatus.NOT_FOUND,
            error_text,
        ),
        ((WrongMode, ConsumerRunning), HTTPStatus.CONFLICT, error_text),
        (InvalidArgument, HTTPStatus.BAD_REQUEST, error_text),
        (
            psycopg.errors.InsufficientPrivilege,
            HTTPStatus.FORBIDDEN,
            lambda exc: f"{primary(exc)}: grant pgq_reader to the role of the dashboard allows it",
        ),
        (
            psycopg.errors.QueryCanceled,
            HTTPStatus.SERVICE_UNAVAILABLE,
            lambda _exc: "The look took longer than five seconds: name a type, a tick or a time.",
        ),
        (psycopg.DataError, HTTPStatus.BAD_REQUEST, primary),  # a time or text that no table has
        (psycopg.Error, HTTPStatus.SERVICE_UNAVAILABLE, primary),
        ((NotYet, PgqError), HTTPStatus.SERVICE_UNAVAILABLE, error_text),
    )
    for kind, status, write in known:
        if isinstance(exc, kind):
            return status, write(exc)
    logger.error(
        "a page failed: %s", describe(exc), exc_info=exc if os.environ.get("PGQPY_DEBUG") else None
    )
    return HTTPStatus.INTERNAL_SERVER_ERROR, "This page has an error; the log names it."


def primary(exc: Exception) -> str:
    """Return the first line of the server's error, without the statement."""
    first = exc.diag.message_primary if isinstance(exc, psycopg.Error) else None
    return first or error_text(exc).partition("\\n")[0]  # error_text has escaped the line breaks
