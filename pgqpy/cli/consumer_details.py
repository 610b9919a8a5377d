"""The fields of ``pgqpy consumer list`` and ``show``: counts, mode, processes, events in flight."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from psycopg.errors import InsufficientPrivilege, UndefinedTable
from psycopg.rows import dict_row

from pgqpy import calls, locks
from pgqpy.calls.filters import describe_filter
from pgqpy.errors import SchemaMissing, WrongMode
from pgqpy.texts import duration

if TYPE_CHECKING:
    from datetime import timedelta

    from pgqpy import Client
    from pgqpy.records import ConsumerInfo, Holder, InflightInfo, Registration

Row = dict[str, Any]
LONG_BACKLOG = 1_000_000  # events
WORST_KEYS = 10
# PGQ's extension has no such table.
POLICY = """
    select r.sub_stalls as stall_policy, r.sub_stall_after as stall_after,
        r.sub_stall_bytes as stall_bytes, r.sub_detached as detached,
        p.pos_attempts as batch_attempts
    from pgq.registration r
    join pgq.current_position p on p.sub_id = r.sub_id
    join pgq.queue q on q.queue_id = r.sub_queue
    join pgq.consumer c on c.co_id = r.sub_consumer
    where q.queue_name = %s and c.co_name = %s
"""


def with_details(client: Client, infos: list[ConsumerInfo]) -> list[Row]:
    """Add to each consumer counts, its mode, and who runs it.

    The lag is the one that the dashboard shows.
    """
    from pgqpy.watch.snapshot import shown_lag

    holders: Counter[tuple[str, str]] = Counter()
    modes: dict[tuple[str, str], Registration] = {}
    flights: dict[tuple[str, str], InflightInfo] = {}
    counts = {}
    with suppress(SchemaMissing):  # by the extension pgq
        counts = {row[:2]: row for row in client.call(calls.admin.get_consumer_counts())}
        modes = {row[:2]: row for row in client.call(calls.admin.get_registrations())}
        flights = {row[:2]: row for row in client.call(calls.sharing.get_inflight())}
        holders.update(row[:2] for row in client.call(calls.sharing.get_holders()) if row.name)
    with client.connection.cursor(row_factory=dict_row) as cursor:
        sessions = cursor.execute(locks.RUNNING).fetchall()

    def row(info: ConsumerInfo) -> Row:
        names = info[:2]
        counted, mode, flight = counts.get(names), modes.get(names), flights.get(names)
        of_it = (each for each in sessions if (each["queue_name"], each["consumer_name"]) == names)
        return {
            **info._asdict(),
            "lag": shown_lag(info.lag, info.pending_events),
            "in_flight": flight and flight.total,
            "retry_events": counted and counted.retry_events,
            "dead_events": counted and counted.dead_events,
            "mode": mode and mode.mode,
            "filter": mode and mode.filter,
            "runs": next(map(_session, of_it), None),
            "processes": holders[names] if flight else None,
        }

    return [row(info) for info in infos]


def policy_details(client: Client, queue: str, name: str) -> Row:
    """Return a consumer's policy, and since when it is detached; nothing on PGQ's extension."""
    with suppress(UndefinedTable), client.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(POLICY, [queue, name]).fetchone() or {}
    return {}


def flight_details(client: Client, row: Row) -> Row:
    """Return how many events a consumer has still to handle, unless it would take long to count.

    Of a shared one, also its settings, events in flight, holders and worst keys.
    """
    names, found = (row["queue_name"], row["consumer_name"]), Row()
    if (row["pending_events"] or 0) + (row["in_flight"] or 0) < LONG_BACKLOG:
        with suppress(SchemaMissing, WrongMode):  # of the extension pgq; of pgq_coop
            found["queue_length"] = client.call(calls.sharing.queue_length(*names))
    if row["mode"] != "shared":
        return found
    (flight,) = client.call(calls.sharing.get_inflight(*names))
    holders = client.call(calls.sharing.get_holders(*names))
    found |= _without_names(flight)
    found["front_lag"] = found.pop("lag")
    found["holders"] = list(map(_without_names, holders))
    with suppress(InsufficientPrivilege):  # keys are payload
        keys = client.call(calls.sharing.get_waiting_keys(*names, WORST_KEYS))
        found["waiting_keys"] = [each._asdict() for each in keys]
    return found


def _without_names(found: InflightInfo | Holder) -> Row:
    return {name: value for name, value in found._asdict().items() if not name.endswith("_name")}


def mode_as_text(found: InflightInfo) -> str:
    """Describe the settings of a shared consumer."""
    words = [f"by {found.order_key}"] if found.order_key else []
    words += [f"per_key {found.per_key}"] if found.per_key > 1 else []
    words += [f"limit_in_flight {found.limit_in_flight}"] if found.limit_in_flight else []
    words += [f"rate {found.rate:g}/s"] if found.rate else []
    return " ".join(["shared", ", ".join(words)]).strip()


def policy_as_text(policy: str, after: timedelta | None, size: int | None) -> str:
    """Describe a policy with its limits."""
    limits = [f"after {duration(after)}"] if after is not None else []
    limits += [f"from {size} bytes on"] if size is not None else []
    return f"{policy} {' or '.join(limits)}" if limits else policy


def _session(session: Row) -> Row:
    return {name: session[name] for name in ("pid", "host", "application")}


def running(row: Row) -> str | None:
    """Describe what runs the consumer: a number of processes, or a session; None: nothing."""
    if row["processes"]:
        return f"{row['processes']} process(es)"
    return None if row["runs"] is None else _session_as_text(row["runs"])


def as_text(row: Row) -> Row:
    """Replace what is not one value by lines of text."""
    inner = ("processes", "stall_after", "stall_bytes", "holders", "waiting_keys")
    fields = {name: value for name, value in row.items() if name not in inner}
    if row["filter"] is not None:
        fields["filter"] = describe_filter(None, row["filter"])
    if "stall_policy" in row:
        limits = (row["stall_after"], row["stall_bytes"])
        fields["stall_policy"] = policy_as_text(row["stall_policy"], *limits)
        fields["detached"] = row["detached"] or "no"
    for holder in row.get("holders", ()):
        fields[f"process {holder['name']}" if holder["name"] else "receivers"] = _claims(holder)
    for key in row.get("waiting_keys", ()):
        fields[f"key {key['key']}"] = _waiting(key)
    return {**fields, "runs": running(row) or "no"}


def _claims(holder: Row) -> str:
    age = holder["oldest_claim"]
    claimed = f"{holder['events']} event(s) claimed"
    return claimed if age is None else f"{claimed}, the first {duration(age)} ago"


def _waiting(key: Row) -> str:
    first = f"event {key['first_id']}, {key['first_state']}, attempt {key['first_attempts']}"
    return f"{key['waiting']} event(s) wait behind {first}"


def _session_as_text(session: Row) -> str:
    """Describe a session in one line: process, host, application."""
    known = [session[name] for name in ("host", "application") if session[name]]
    return ", ".join([f"pid {session['pid']}", *known])
