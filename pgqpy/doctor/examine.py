"""The sequence of all checks on one database."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import errors
from psycopg.rows import dict_row

from pgqpy import install
from pgqpy.doctor import blockers, consumers, inflight, queues, schema
from pgqpy.doctor.finding import Finding, Row, quoted_role
from pgqpy.texts import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection
    from typing_extensions import LiteralString

LONG_TRANSACTION = timedelta(minutes=5)
NOT_CHECKED = ("missing", "foreign", "empty", "untrusted")


class Check(NamedTuple):
    """A query, and the pure function that turns its rows into findings."""

    name: str
    query: LiteralString
    judge: Callable[[list[Row]], Iterator[Finding]]


def checks(limit: timedelta) -> tuple[Check, ...]:
    """Return the checks in their order; an open transaction older than `limit` is a failure."""
    judge_transactions = partial(blockers.judge_transactions, limit=limit)
    return (
        Check("server", schema.SERVER, schema.judge_server),
        Check("rights", schema.RIGHTS, schema.judge_rights),
        Check("rights", schema.PUBLIC, schema.judge_public),
        Check("capture", schema.CAPTURE, schema.judge_capture),
        Check("roles", schema.ADMINS, schema.judge_admins),
        Check("restored", schema.RESTORED, schema.judge_restored),
        Check("restored", schema.MOVED, schema.judge_moved),
        Check("position", schema.POSITIONS, schema.judge_positions),
        Check("position", schema.EXTENSION_POSITIONS, schema.judge_positions),
        Check("ticker", queues.TICKS, queues.judge_ticks),
        Check("paused", queues.SWITCHES, queues.judge_switches),
        Check("rotation", queues.ROTATION, queues.judge_rotation),
        Check("stalled", consumers.STALLED, consumers.judge_stalled),
        Check("retention", queues.RETENTION, queues.judge_retention),
        Check("delayed", queues.DELAYED, queues.judge_delayed),
        Check("stage", queues.STAGES, queues.judge_stages),
        Check("consumer", consumers.CONSUMERS, consumers.judge_consumers),
        Check("running", consumers.RUNNING, consumers.judge_running),
        Check("inflight", inflight.INFLIGHT, inflight.judge_inflight),
        Check("inflight", inflight.HOLDERS, inflight.judge_holders),
        Check("inflight", inflight.KEYS, inflight.judge_keys),
        Check("crash", consumers.CRASHES, consumers.judge_crashes),
        Check("retry", consumers.RETRIES, consumers.judge_retries),
        Check("dead", consumers.DEAD, consumers.judge_dead),
        Check("capture", queues.CAPTURES, queues.judge_captures),
        Check("cron", queues.ENTRIES, queues.judge_entries),
        Check("lock", blockers.HELD, blockers.judge_held),
        Check("standby", blockers.STANDBYS, blockers.judge_standbys),
        Check("transaction", blockers.TRANSACTIONS, judge_transactions),
        Check("slot", blockers.SLOTS, blockers.judge_slots),
    )


def examine(
    connection: Connection[Any], *, long_transaction: timedelta = LONG_TRANSACTION
) -> Iterator[Finding]:
    """Yield the findings of all checks. The connection must be in autocommit mode.

    An open transaction older than `long_transaction` is a failure. The checks change nothing. The
    first findings are tables that all wait for; the checks end where one is refused for a lock.
    """
    found: list[Finding] = []
    refused = None
    try:
        found.extend(_findings(connection, long_transaction))
    except errors.LockNotAvailable as exc:
        refused = exc.diag.message_primary
    blockages = blockers.find_blockages(connection, refused=refused is not None)
    yield from blockers.judge_blockages(blockages, refused)
    yield from found


def examine_roles(connection: Connection[Any]) -> Iterator[Finding]:
    """Yield the findings on roles that may grant the six roles."""
    yield from _run(connection, Check("roles", schema.ADMINS, schema.judge_admins))


def _findings(connection: Connection[Any], long_transaction: timedelta) -> Iterator[Finding]:
    found = install.status(connection)
    yield from schema.judge_schema(found)
    if found.state in NOT_CHECKED:
        return
    for check in checks(long_transaction):
        yield from _run(connection, check)


def _run(connection: Connection[Any], check: Check) -> Iterator[Finding]:
    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(check.query).fetchall()
    except errors.InsufficientPrivilege as exc:
        what = f"not looked at: {exc.diag.message_primary}"
        remedy = f"grant pgq_admin to {quoted_role(connection.info.user)} allows it"
        yield Finding("skipped", check.name, what, remedy)
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction):
        return  # PGQ's extension or an older schema lacks it
    except errors.LockNotAvailable:
        raise  # the next check would wait for it too
    except errors.Error as exc:
        if connection.closed:
            raise
        what = f"this check could not run: {error_text(exc)}"
        yield Finding("fail", check.name, what, "the others ran; correct what the error names")
    else:
        yield from check.judge(rows)
