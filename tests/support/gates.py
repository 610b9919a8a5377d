"""Hold another session at an exact point: advisory locks as gates, never sleeps."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    import psycopg

_keys = itertools.count(1_000_000)
calls: dict[int, Future[Any]] = {}  # what sessions were asked to do in the background, by their pid

BLOCKED_SQL = """
    select pg_blocking_pids(pid) from pg_stat_activity
    where pid = %s and wait_event_type = 'Lock' and cardinality(pg_blocking_pids(pid)) > 0
"""


class Gate:
    """A gate that is shut until `open()`: sessions that run `wait_sql` wait before it."""

    def __init__(self, keeper: psycopg.Connection[Any], key: int) -> None:
        """Shut the gate: `keeper`'s session holds it (and must stay connected)."""
        self.key = key
        self.wait_sql = f"select pg_advisory_xact_lock_shared({key})"
        self._keeper = keeper
        self._shut = True
        keeper.execute("select pg_advisory_lock(%s)", [key])

    def open(self) -> None:
        """Let everybody through, now and later; opening twice is safe."""
        if self._shut:
            self._keeper.execute("select pg_advisory_unlock(%s)", [self.key])
            self._shut = False

    def waiting(self) -> list[int]:
        """Return the process ids of the sessions that wait before the gate."""
        rows = self._keeper.execute(
            "select pid from pg_locks where locktype = 'advisory' and not granted"
            " and database = (select oid from pg_database where datname = current_database())"
            " and (classid::bigint << 32) + objid::bigint = %s",
            [self.key],
        ).fetchall()
        return [_first(row) for row in rows]

    def wait_for_arrival(self, timeout: float = 30) -> int:
        """Wait until somebody stands before the gate, and return that process id."""
        return eventually(self.waiting, timeout)[0]


@contextmanager
def shut_gate(keeper: psycopg.Connection[Any]) -> Iterator[Gate]:
    """Make a new gate, shut by `keeper` (an autocommit connection), open at the end at last."""
    gate = Gate(keeper, next(_keys))
    try:
        yield gate
    finally:
        gate.open()


def wait_until_blocked(
    connection: psycopg.Connection[Any], pid: int, timeout: float = 30
) -> list[int]:
    """Wait until session `pid` waits for a lock; return the process ids that block it.

    Fails at once when a call of the session in `calls` ends without that.
    """

    def blockers() -> list[int] | str:
        ended = pid in calls and calls[pid].done()
        row = connection.execute(BLOCKED_SQL, [pid]).fetchone()
        if row is None:
            return "it ended" if ended else []
        return _first(row)

    found = eventually(blockers, timeout)
    assert not isinstance(found, str), f"session {pid} waited for no lock: {found}"
    return found


def _first(row: Any) -> Any:
    return next(iter(row.values())) if isinstance(row, dict) else row[0]
