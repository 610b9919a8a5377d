"""Errors as one line on stderr, and their exit codes."""

from __future__ import annotations

import os
import re
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import psycopg

from pgqpy.errors import PgqError
from pgqpy.texts import READ_ONLY, escaped, printable

if TYPE_CHECKING:
    from typing import TypeGuard

    from pydantic import ValidationError

FAILED, USAGE, INTERRUPTED = 1, 2, 130

# What to do next, by error class or SQLSTATE, if the command line has better advice than the
# server's hint.
REMEDIES = {
    "QueueNotFound": "pgqpy queue list shows the queues, pgqpy queue create adds one",
    "ConsumerNotFound": "pgqpy consumer list shows the consumers, pgqpy consumer register adds one",
    "PQ005": "pgqpy queue show names the last tick",
    "PQ006": "pgqpy queue set QUEUE disable_insert=false allows inserts again",
    "PQ007": "pgqpy queue set QUEUE per_tx_limit=N raises the limit",
    "QueueInUse": "remove them, or add --force to drop the queue all the same",
    "PQ026": "use the new name",
    "PQ023": "pgqpy cron list shows the cron entries",
    "ConsumerDetached": "pgqpy consumer set QUEUE CONSUMER attached=yes lets it go on",
    "PQ011": "pgqpy queue set QUEUE ticker_paused=false lets it tick again",
    "InsufficientPrivilege": "have an administrator grant pgq_reader, pgq_writer or pgq_admin",
    "QueryCanceled": "a statement_timeout of this role or database cut it short",
    "LockNotAvailable": "another session holds a lock: pgqpy doctor names one "
    "that all wait for; end its transaction, or run the command again",
    "TooManyConnections": "wait for a free connection, or raise max_connections",
    "ReadOnlySqlTransaction": READ_ONLY,
    "AdminShutdown": "the server was stopped or restarted: run the command again",
}

_BUG = "this is a bug in pgqpy: PGQPY_DEBUG=1 shows the traceback"

_SECRETS = (
    (re.compile(r"(://[^:/?#@\s]*):[^/\s]*@"), r"\1:***@"),
    (re.compile(r"(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'\"]+)"), r"\1***"),
)


def report(exc: BaseException) -> int:
    """Print an error as one line on stderr; return the exit code."""
    if isinstance(exc, SystemExit):
        return _system_exit(exc)
    if isinstance(exc, BrokenPipeError):
        return _broken_pipe()
    if isinstance(exc, (KeyboardInterrupt, click.Abort)):
        _say("interrupted")
        return INTERRUPTED
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        click.echo(exc.format_message(), err=True)
        return USAGE
    if isinstance(exc, click.UsageError):
        where_help_is = f"; try '{exc.ctx.command_path} --help'" if exc.ctx else ""
        _say(f"error: {explain(exc)}{where_help_is}")
        return USAGE
    if os.environ.get("PGQPY_DEBUG"):
        _say("".join(traceback.format_exception(exc)))
    _say(f"error: {explain(exc)}")
    return USAGE if _is_about_settings(exc) else FAILED


def _system_exit(exc: SystemExit) -> int:
    if isinstance(exc.code, int):
        return exc.code
    if exc.code is None:
        return 0
    _say(f"error: {printable(str(exc.code))}")
    return FAILED


def explain(exc: BaseException) -> str:
    """Return what happened and what to do, in one line without passwords."""
    happened, remedy = _message_and_remedy(exc)
    # The cause of InstallFailed is the server's error.
    names = [*_names(exc), *(_names(exc.__cause__) if exc.__cause__ else ())]
    remedy = next((REMEDIES[name] for name in names if name in REMEDIES), remedy)
    line = "; ".join(" ".join(part.split()).rstrip(".") for part in (happened, remedy) if part)
    return redact(escaped(line))


def redact(text: str) -> str:
    """Replace the passwords of connection strings in the text by ***."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _names(exc: BaseException) -> list[str]:
    names = [kind.__name__ for kind in type(exc).__mro__]
    return [exc.sqlstate or "", *names] if isinstance(exc, PgqError) else names


def _message_and_remedy(exc: BaseException) -> tuple[str, str]:
    """Return what happened, and what to do if the error says it."""
    if isinstance(exc, click.ClickException):
        return exc.format_message(), ""
    if isinstance(exc, OSError):
        return f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc), ""
    if isinstance(exc, PgqError):
        return _pgqpy_message(exc)
    if isinstance(exc, psycopg.Error):
        return _server_message(exc) or _psycopg_message(exc)
    if _is_about_settings(exc):
        from pgqpy.ticker.settings import problems

        what = "wrong setting: " + "; ".join(problems(exc))
        return what, "set it by its option, or by its variable"
    return f"{type(exc).__name__}: {exc}", _BUG


def _pgqpy_message(exc: PgqError) -> tuple[str, str]:
    remedy = exc.what_to_do
    if " run pgqpy schema " in str(exc) and not str(exc).endswith(remedy):
        return str(exc), ""  # it is about a function or a version, and says what to do
    by_server = _server_message(exc.__cause__)
    if by_server and str(exc).startswith(by_server[0].partition(" (")[0]):
        # Both say the same; the server's message separates detail and hint.
        return by_server[0], by_server[1] or remedy
    return (str(exc).removesuffix(f": {remedy}"), remedy) if remedy else (str(exc), "")


def _server_message(exc: BaseException | None) -> tuple[str, str] | None:
    if not (isinstance(exc, psycopg.Error) and exc.diag.message_primary):
        return None
    diag = exc.diag
    detail = f" ({diag.message_detail.rstrip('.')})" if diag.message_detail else ""
    return f"{diag.message_primary}{detail}", diag.message_hint or ""


def _psycopg_message(exc: psycopg.Error) -> tuple[str, str]:
    if not isinstance(exc, psycopg.ProgrammingError):
        return str(exc), ""
    # It quotes a part of a DSN that it cannot parse, which may be the password.
    return f"{type(exc).__name__} of psycopg, which may quote a password", _BUG


def _is_about_settings(exc: BaseException) -> TypeGuard[ValidationError]:
    # By name: importing pydantic would slow every command down.
    return "ValidationError" in _names(exc)


def _broken_pipe() -> int:
    # The reader of the pipe has ended (`| head`). Nothing may be flushed to the pipe at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _say(text: str) -> None:
    with suppress(OSError):  # standard error may have no reader any more
        click.echo(redact(text), err=True)
