"""The check of advisory locks: holders that block tickers, consumers, queues or installs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import locks
from pgqpy.doctor.finding import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

    from pgqpy.doctor.finding import Level, Row

HELD: LiteralString = f"""
    select h.*, q.queue_name, s.consumer, s.queue as consumer_queue
    from ({locks.HOLDERS}) h
    left join pgq.queue q on h.class = 7366515 and q.queue_id = h.object
    left join (
        select s.sub_id, c.co_name as consumer, sq.queue_name as queue
        from pgq.subscription s join pgq.consumer c on c.co_id = s.sub_consumer
            join pgq.queue sq on sq.queue_id = s.sub_queue) s
        on h.class = 7366514 and s.sub_id = h.object
    order by h.class, h.object, h.pid
"""  # noqa: S608  # our own query within our own


def judge_held(rows: list[Row]) -> Iterator[Finding]:
    """Report holders that block tickers, consumers, queues or installations."""
    for row in rows:
        holder = locks.Holder(**{name: row[name] for name in locks.Holder._fields})
        blocked = _blocked(row, holder)
        if blocked:
            level, what = blocked
            held = f"advisory lock ({row['class']}, {row['object']})"
            yield Finding(level, "lock", f"{what}: {held} is held by {holder}", holder.how_to_end)


def _blocked(row: Row, holder: locks.Holder) -> tuple[Level, str] | None:
    """Return the level and what the holder blocks; None if it may hold the lock."""
    no_session = holder.pid is None  # a prepared transaction
    lock = (row["class"], row["object"])
    if lock == (locks.ENGINE, locks.TICKING) and (no_session or holder.may_tick is False):
        return "fail", "every ticker stands by for a holder that may not tick"
    if row["consumer"] and (no_session or holder.may_consume is False):
        return "fail", f"consumer {row['consumer']} of {row['consumer_queue']} cannot run"
    if row["queue_name"] and row["exclusive"]:
        return "fail", f"queue {row['queue_name']} is not ticked unless it is being dropped"
    if lock == (locks.ENGINE, locks.CHANGING):
        return "warn", "queues cannot be created, changed or dropped meanwhile"
    if lock == (locks.ENGINE, locks.INSTALLING):
        return "warn", "the schema cannot be installed or upgraded meanwhile"
    return None


CHECKS = (Check("lock", HELD, judge_held),)
