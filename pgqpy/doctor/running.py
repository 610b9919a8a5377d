"""The check of consumers that no session runs while events wait."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy import locks
from pgqpy.doctor.finding import Check, Finding, rough

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

    from pgqpy.doctor.finding import Level, Row

QUIET = timedelta(minutes=1)
GONE = timedelta(minutes=10)

# waited: the age of the first tick with events after the position. Positions whose tick does not
# exist are left to the check "position".
RUNNING: LiteralString = f"""
    select i.queue_name, i.consumer_name, i.pending_events, i.last_seen, i.current_batch as batch,
        (select now() - t.tick_time from pgq.tick t
            where t.tick_queue = q.queue_id and t.tick_id > i.last_tick
                and t.tick_event_seq > done.tick_event_seq
            order by t.tick_id limit 1) as waited,
        r.pid is not null as runs
    from pgq.get_consumer_info() i
        join pgq.queue q on q.queue_name = i.queue_name
        join pgq.tick done on done.tick_queue = q.queue_id and done.tick_id = i.last_tick
        left join ({locks.RUNNING}) r
            on r.queue_name = i.queue_name and r.consumer_name = i.consumer_name
    order by 1, 2
"""  # noqa: S608  # our own query within our own


def judge_running(rows: list[Row]) -> Iterator[Finding]:
    """Report consumers that no session runs while events wait for them.

    A program that calls the SQL functions directly holds no lock; it counts as running if it was
    seen recently.
    """
    idle = [row for row in rows if not row["runs"] and _unattended(row) > QUIET]
    for row in idle:
        queue, consumer = row["queue_name"], row["consumer_name"]
        seen = f"last seen {rough(row['last_seen'])} ago"
        batch = "it was" if row["batch"] is None else f"its batch {row['batch']} is open,"
        what = (
            f"nobody runs consumer {consumer} of queue {queue}: {row['pending_events']} event(s) "
            f"wait, the oldest for {rough(row['waited'])}; {batch} {seen}"
        )
        # A program without the lock looks the same while it processes a long batch.
        level: Level = "fail" if _unattended(row) > GONE else "warn"
        remedy = f"run it, or give it up: pgqpy consumer unregister {queue} {consumer}"
        yield Finding(level, "running", what, remedy)
    if not idle:
        count = sum(row["runs"] for row in rows)
        what = f"{count} of {len(rows)} consumer(s) run, no events wait for the others"
        yield Finding("ok", "running", what)


def _unattended(row: Row) -> timedelta:
    """Return how long events have waited without a call by the consumer."""
    return timedelta(0) if row["waited"] is None else min(row["waited"], row["last_seen"])


CHECK = Check("running", RUNNING, judge_running)
