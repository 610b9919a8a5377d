"""Checks of consumers that a rotation waits for, and of those that are detached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Finding, Row, command, unregistering
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

STALLED = """
    select queue_name, consumer_name, policy, clock_timestamp() - detached as detached, held_for,
        pg_size_pretty(held_bytes) as size, is_live
    from pgq.get_stalled_info() where detached is not null or exceeded
"""


def judge_stalled(rows: list[Row]) -> Iterator[Finding]:
    """Report what the consumer keeps, or what it has missed."""
    for row in rows:
        consumer, queue = row["consumer_name"], row["queue_name"]
        who, give_up = f"consumer {consumer} of queue {queue}", unregistering(queue, consumer)
        if row["detached"] is not None:
            left = "nothing is lost yet" if row["is_live"] else "events after its position are gone"
            what = f"{who} is detached for {duration(row['detached'])}: {left}"
            remedy = f"{command('consumer', 'set', queue, consumer, 'attached=yes')}, or {give_up}"
            yield Finding("fail", "stalled", what, remedy)
        else:
            what = (
                f"rotation waits for {who}, which is {duration(row['held_for'])} behind: the "
                f"queue's tables have {row['size'] or 'an unknown size'}"
            )
            remedy = f"run it, or give it up: {give_up}"
            if row["policy"] == "warn":
                remedy += "; policy=detach of pgqpy consumer set lets it go after a time or a size"
            yield Finding("warn", "stalled", what, remedy)
