"""The check of sessions that wait for a synchronous standby: no lock, and no timeout ends that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Finding, Row
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

# A commit that a standby confirms waits for a moment too. query_start: of the COMMIT, or of the
# statement that was a transaction of its own.
WAITING = """
    select w.*, current_setting('synchronous_standby_names') as wanted,
        (select string_agg(format('%s (%s)', application_name, sync_state), ', ' order by pid)
            from pg_stat_replication) as connected
    from (
        select count(*) as sessions, max(now() - query_start) as longest,
            (array_agg(format('pid %s, %s', pid, application_name) order by query_start))[1] as who
        from pg_stat_activity
        where wait_event = 'SyncRep' and datname = current_database()
            and query_start < now() - interval '5 s') w
    where w.sessions > 0
"""


def judge_waiting(rows: list[Row]) -> Iterator[Finding]:
    """Report commits that wait for a synchronous standby. Rights: pg_read_all_stats."""
    for row in rows:
        what = (
            f"{row['sessions']} session(s) wait for a synchronous standby to confirm a commit, "
            f"{row['who']} for {duration(row['longest'])}: synchronous_standby_names is "
            f"'{row['wanted']}', connected: {row['connected'] or 'none'}"
        )
        remedy = (
            "start the standby, or take it out of synchronous_standby_names (alter system set, "
            "select pg_reload_conf()): until then no consumer goes on"
        )
        yield Finding("fail", "standby", what, remedy)
