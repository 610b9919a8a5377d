"""Run the checks over one database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.rows import dict_row

from pgqpy import install
from pgqpy.doctor import engine, flow, held, horizon, running
from pgqpy.doctor.finding import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

LONG_TRANSACTION = timedelta(minutes=5)
NOT_LOOKED_AT = ("missing", "foreign", "empty", "untrusted")


def examine(
    connection: Connection[Any], *, long_transaction: timedelta = LONG_TRANSACTION
) -> Iterator[Finding]:
    """Look at the connected database; changes nothing. The connection must be in autocommit mode.

    `long_transaction` is the age from which an open transaction is a failure.
    """
    found = install.status(connection)
    yield from engine.judge_schema(found)
    if found.state in NOT_LOOKED_AT:
        return
    for check in (
        *engine.CHECKS,
        *flow.CHECKS,
        running.CHECK,
        held.CHECK,
        *horizon.checks(long_transaction),
    ):
        yield from _run(connection, check)


def _run(connection: Connection[Any], check: Check) -> Iterator[Finding]:
    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(check.query).fetchall()
    except errors.InsufficientPrivilege as exc:
        what = f"not looked at: {exc.diag.message_primary}"
        remedy = f'grant pgq_admin to "{connection.info.user}" lets it look'
        yield Finding("skipped", check.name, what, remedy)
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction):
        return  # the real extension, or an older schema, has no such thing
    else:
        yield from check.judge(rows)
