"""Checks of queues: switched off, rotation overdue, stages without a commit."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Check, Finding, rough

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.doctor.finding import Row

ROTATION_SLACK = timedelta(minutes=10)
STAGE_SLACK = timedelta(hours=1)

SWITCHES = """
    select queue_name, queue_ticker_paused as paused, queue_disable_insert as insert_disabled
    from pgq.queue where queue_ticker_paused or queue_disable_insert order by 1
"""


def judge_switches(rows: list[Row]) -> Iterator[Finding]:
    """Report queues that are paused or refuse inserts."""
    for row in rows:
        queue = row["queue_name"]
        if row["paused"]:
            remedy = f"pgqpy queue set {queue} ticker_paused=false"
            what = f"queue {queue} is paused: its events are not delivered"
            yield Finding("warn", "paused", what, remedy)
        if row["insert_disabled"]:
            remedy = f"pgqpy queue set {queue} disable_insert=false"
            yield Finding("warn", "paused", f"inserting into queue {queue} is disabled", remedy)


ROTATION = """
    select queue_name, now() - queue_switch_time - queue_rotation_period as overdue
    from pgq.queue where not queue_external_ticker order by 1
"""


def judge_rotation(rows: list[Row]) -> Iterator[Finding]:
    """Report rotations that are overdue."""
    for row in rows:
        if row["overdue"] > ROTATION_SLACK:
            what = f"queue {row['queue_name']} should have rotated {rough(row['overdue'])} ago"
            remedy = (
                "pgqpy ticker run maintains; slow consumers, long transactions, stages delay it"
            )
            yield Finding("warn", "rotation", what, remedy)


STAGES = """
    select q.queue_name, s.stage_writer as writer, count(*) as stages,
        now() - min(s.stage_time) as waited,
        format('select pgq.drop_stage(%L, %L)', q.queue_name, s.stage_writer) as drop
    from pgq.stage s join pgq.queue q on q.queue_id = s.stage_queue
    where s.stage_commit is null group by 1, 2 order by 1, 2
"""


def judge_stages(rows: list[Row]) -> Iterator[Finding]:
    """Report old uncommitted stages. Rotation waits for them until maint_stages drops them."""
    for row in rows:
        if row["waited"] > STAGE_SLACK:
            what = (
                f"{row['stages']} stage(s) of {row['writer']!r} wait to be committed, the oldest "
                f"for {rough(row['waited'])}: they keep tables of queue {row['queue_name']}"
            )
            yield Finding("warn", "stage", what, f"commit them, or: {row['drop']}")


CHECKS = (
    Check("paused", SWITCHES, judge_switches),
    Check("rotation", ROTATION, judge_rotation),
    Check("stage", STAGES, judge_stages),
)
