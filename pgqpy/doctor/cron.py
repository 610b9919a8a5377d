"""Checks of cron entries: those that do not fire, and those that are paused for long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Finding, Row, command
from pgqpy.errors import InvalidArgument
from pgqpy.schedule import schedule, should_fire
from pgqpy.texts import duration, noun

if TYPE_CHECKING:
    from collections.abc import Iterator

SLACK = timedelta(minutes=2)  # a ticker notices a new entry within seconds, and a takeover is short
PAUSED = timedelta(days=1)

ENTRIES = """
    select cron_name, queue_name, schedule, timezone, read_at - paused_since as paused,
        read_at, next_due, planned_at, read_at - planned_at as unplanned
    from pgq.get_cron_info()
"""


def judge_entries(rows: list[Row]) -> Iterator[Finding]:
    """Report entries that nobody can read, that are late, or that are paused for long."""
    found = [finding for row in rows for finding in _judge(row)]
    yield from found
    if rows and not found:
        planned = noun(len(rows), "cron entry is", "cron entries are")
        yield Finding("ok", "cron", f"{len(rows)} {planned} planned, and none is late")


def _judge(row: Row) -> Iterator[Finding]:
    entry = f"cron entry {row['cron_name']} of queue {row['queue_name']}"
    if row["paused"] is not None:
        if row["paused"] > PAUSED:
            what = f"{entry} is paused for {duration(row['paused'])}"
            name = row["cron_name"]
            go_on = command("cron", "set", name, "paused=false")
            remedy = f"{go_on}, or {command('cron', 'remove', name)}"
            yield Finding("warn", "cron", what, remedy)
        return
    try:
        schedule(row["schedule"], row["timezone"])
    except InvalidArgument as exc:
        yield Finding("fail", "cron", f"{entry} cannot be read: {exc}", "add it again, corrected")
        return
    remedy = (
        "run a ticker (pgqpy ticker run, without --no-cron); if one runs, its log has the error"
    )
    if row["next_due"] is None and row["unplanned"] > SLACK:
        what = f"{entry} has not been planned by a ticker for {duration(row['unplanned'])}"
        yield Finding("fail", "cron", what, remedy)
    elif row["next_due"] is not None:
        due = should_fire(row["schedule"], row["timezone"], row["next_due"], row["planned_at"])
        if (late := row["read_at"] - due) <= SLACK:
            return
        what = f"{entry} was due {duration(late)} ago, and did not fire"
        if due < row["next_due"]:
            what = f"{what}: it is planned for {row['next_due']:%Y-%m-%d %H:%M %Z}"
            name = row["cron_name"]
            pause, go_on = (
                command("cron", "set", name, f"paused={each}") for each in ("true", "false")
            )
            remedy = (
                f"{pause}, then {go_on}, plans "
                "it anew; if it comes back, a ticker has other time zone data: update tzdata"
            )
        yield Finding("fail", "cron", what, remedy)
