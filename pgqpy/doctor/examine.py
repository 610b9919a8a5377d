"""The sequence of all checks on one database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.rows import dict_row

from pgqpy import install
from pgqpy.doctor import consumers, engine, horizon, lock_holders, queues, ticker
from pgqpy.doctor.finding import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

LONG_TRANSACTION = timedelta(minutes=5)
NOT_CHECKED = ("missing", "foreign", "empty", "untrusted")


def examine(
    connection: Connection[Any], *, long_transaction: timedelta = LONG_TRANSACTION
) -> Iterator[Finding]:
    """Yield the findings of all checks. The connection must be in autocommit mode.

    An open transaction older than `long_transaction` is a failure. The checks change nothing.
    """
    found = install.status(connection)
    yield from engine.judge_schema(found)
    if found.state in NOT_CHECKED:
        return
    for check in (
        *engine.CHECKS,
        *ticker.CHECKS,
        *queues.CHECKS,
        *consumers.CHECKS,
        *lock_holders.CHECKS,
        *horizon.checks(long_transaction),
    ):
        yield from _run(connection, check)


def _run(connection: Connection[Any], check: Check) -> Iterator[Finding]:
    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(check.query).fetchall()
    except errors.InsufficientPrivilege as exc:
        what = f"not looked at: {exc.diag.message_primary}"
        remedy = f'grant pgq_admin to "{connection.info.user}" allows it'
        yield Finding("skipped", check.name, what, remedy)
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction):
        return  # PGQ's extension or an older schema lacks it
    else:
        yield from check.judge(rows)
