"""Checks of shared consumers: long claims, keys with many waiting events, front lag, crashes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy.doctor.finding import Finding, Row, command
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG_CLAIM = timedelta(hours=1)
FRONT_LAG = timedelta(minutes=10)
HOT = 1000  # events that wait behind one of their key
INFLIGHT = "select * from pgq.get_inflight()"


def judge_inflight(rows: list[Row]) -> Iterator[Finding]:
    """Report fronts that lag, and events that may have killed a process."""
    for row in rows:
        if row["lag"] > FRONT_LAG:
            yield _front(row)
        if row["suspects"]:
            yield _suspects(row)
    if rows and all(row["lag"] <= FRONT_LAG and not row["suspects"] for row in rows):
        yield Finding("ok", "inflight", f"{len(rows)} shared consumer(s), none is held up")


def _front(row: Row) -> Finding:
    what = f"{_name(row)} has not looked for new events for {duration(row['lag'])}"
    remedy = f"{_show(row)} tells who runs it, and which keys wait: start more processes"
    if row["limit_in_flight"] is not None and row["claimed"] >= row["limit_in_flight"]:
        what += f": its limit_in_flight of {row['limit_in_flight']} is reached"
        remedy = f"raise it, or look why its handlers are slow: {_show(row)} tells who has what"
    elif row["in_pieces"]:
        what += f": about {row['in_pieces']} events of earlier ranges come before"
    return Finding("warn", "inflight", what, remedy)


def _suspects(row: Row) -> Finding:
    what = (
        f"a process that had {row['suspects']} event(s) of {_name(row)} died or was silent for "
        f"its lease, {row['crashes']} time(s) with one of them alone"
    )
    dead = command("event", "list", row["queue_name"], "dead", row["consumer_name"])
    remedy = (
        "see its log, and whether memory is short; an event that is alone in 3 crashes is dead, "
        f"and {dead} lists it"
    )
    return Finding("warn", "crash", what, remedy)


HOLDERS = "select * from pgq.get_holders()"


def judge_holders(rows: list[Row]) -> Iterator[Finding]:
    """Report claims that are renewed for hours: the handler may hang."""
    for row in rows:
        if row["oldest_claim"] is None or row["oldest_claim"] <= LONG_CLAIM:
            continue
        who = f"process {row['name']}" if row["name"] else "a receiver"
        what = f"{who} has had an event of {_name(row)} for {duration(row['oldest_claim'])}"
        remedy = (
            "look whether its handler hangs: handler_timeout ends a process that does; when it is "
            "stopped, another one gets the event"
        )
        yield Finding("warn", "inflight", what, remedy)


# Keys are payload: a role without pgq_reader skips this check.
KEYS = """
    select i.queue_name, i.consumer_name, k.*
    from pgq.get_inflight() i
        cross join lateral pgq.get_waiting_keys(i.queue_name, i.consumer_name, 1) k
    where i.waiting > 0
"""


def judge_keys(rows: list[Row]) -> Iterator[Finding]:
    """Report the key of each consumer for which most events wait, if they are many."""
    for row in rows:
        if row["waiting"] < HOT:
            continue
        what = (
            f"{row['waiting']} event(s) of key {row['key']} of {_name(row)} wait behind event "
            f"{row['first_id']}, which is {row['first_state']}"
        )
        remedy = (
            "one after the other is handled: a key that more events share than others is too "
            "coarse, or its handler is slow"
        )
        if row["first_state"] == "delayed":
            retry, delete = (
                command(
                    "event", verb, row["queue_name"], row["consumer_name"], str(row["first_id"])
                )
                for verb in ("retry", "delete")
            )
            remedy = f"mend what it fails for; {retry} lets it come now, {delete} makes it dead"
        yield Finding("warn", "inflight", what, remedy)


def _name(row: Row) -> str:
    return f"consumer {row['consumer_name']} of queue {row['queue_name']}"


def _show(row: Row) -> str:
    return command("consumer", "show", row["queue_name"], row["consumer_name"])
