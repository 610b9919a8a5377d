"""Checks of what holds xmin back: rows cannot be removed, and tables not rotated, behind it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Check, Finding, rough

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from pgqpy.doctor.finding import Level, Row

WARN_PART = 10  # a tenth of the limit is worth a warning
SLOT_XIDS = 1_000_000  # a slot that holds so many transaction ids back is forgotten

# A transaction with an xid stands in the snapshots of every database, one without in its own's.
TRANSACTIONS = """
    select 'pid ' || a.pid as who, a.usename::text as "user", a.application_name as application,
        coalesce(a.state, '') as state, now() - a.xact_start as age
    from pg_stat_activity a
    where a.xact_start is not null and a.pid <> pg_backend_pid()
        and a.backend_type <> 'autovacuum worker'
        and (a.backend_xid is not null
            or (a.backend_xmin is not null and a.datname = current_database()))
    union all
    select 'prepared transaction ' || p.gid, p.owner::text, p.database::text, 'prepared',
        now() - p.prepared
    from pg_prepared_xacts p
    order by age desc
"""


def judge_transactions(rows: list[Row], limit: timedelta) -> Iterator[Finding]:
    """Name the transactions that are older than `limit` (warn from a tenth of it)."""
    old = [row for row in rows if row["age"] > limit / WARN_PART]
    for row in old:
        level: Level = "fail" if row["age"] > limit else "warn"
        yield Finding(level, "transaction", f"{_told(row)} holds xmin back", _remedy(row))
    if not old:
        oldest = f"the oldest: {_told(rows[0])}" if rows else "none is open"
        yield Finding("ok", "transaction", f"no long transaction; {oldest}")


def _told(row: Row) -> str:
    where = f", {row['application']}" if row["application"] else ""
    return f"{row['who']} (user {row['user']}{where}, {row['state']}), {rough(row['age'])} old"


def _remedy(row: Row) -> str:
    kind, _, name = row["who"].rpartition(" ")
    if kind == "pid":
        return f"end it, or: select pg_terminate_backend({name})"
    return "commit prepared or rollback prepared, in its database, as its owner"


SIGHT = """
    select current_user::text as "user", pg_has_role('pg_read_all_stats', 'usage') as sees_all
"""


def judge_sight(rows: list[Row]) -> Iterator[Finding]:
    """Say so where this role cannot see the transactions of others."""
    for row in rows:
        if not row["sees_all"]:
            what = f"role {row['user']} sees only its own transactions"
            yield Finding("ok", "transaction", what, "pg_read_all_stats would show it the others")


SLOTS = """
    select slot_name::text, active, age(xmin) as xids
    from pg_replication_slots where xmin is not null order by 1
"""


def judge_slots(rows: list[Row]) -> Iterator[Finding]:
    """Name replication slots whose standby went away, or lags far behind."""
    for row in rows:
        if row["xids"] > SLOT_XIDS or not row["active"]:
            state = "used" if row["active"] else "unused"
            what = (
                f"replication slot {row['slot_name']} ({state}) holds xmin back, "
                f"{row['xids']} transactions ago"
            )
            level: Level = "fail" if row["xids"] > SLOT_XIDS else "warn"
            remedy = f"start its standby, or: select pg_drop_replication_slot('{row['slot_name']}')"
            yield Finding(level, "slot", what, remedy)


def checks(limit: timedelta) -> tuple[Check, ...]:
    """Return the checks, with the age from which a transaction is too old."""
    return (
        Check("transaction", SIGHT, judge_sight),
        Check("transaction", TRANSACTIONS, partial(judge_transactions, limit=limit)),
        Check("slot", SLOTS, judge_slots),
    )
