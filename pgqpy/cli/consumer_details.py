"""What ``pgqpy consumer list`` and ``show`` tell: counts, mode, sessions, workers, lanes."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from psycopg.errors import UndefinedTable
from psycopg.rows import dict_row

from pgqpy import calls, locks
from pgqpy.calls.filters import describe_filter
from pgqpy.errors import SchemaMissing
from pgqpy.texts import duration

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.records import ConsumerInfo, WorkerInfo

    Row = dict[str, Any]

LEASED = "lease-"  # begins the names of the subconsumers that workers with a lease have
# What a worker's row leaves out, or names otherwise.
NAMES = ("queue_name", "consumer_name", "mode", "current_batch")
# What receivers have claimed. PGQ's extension has no such table, nor that of the next query.
LEASES = """
    select q.queue_name, c.co_name, i.run_token as token,
        sum(cardinality(i.run_ids))::int as messages, max(i.run_attempts) as attempt,
        min(i.run_due) - clock_timestamp() as ends_in
    from pgq.inflight i
    join pgq.registration r on r.sub_id = i.run_sub
    join pgq.queue q on q.queue_id = r.sub_queue
    join pgq.consumer c on c.co_id = r.sub_consumer
    where i.run_token > 0 and i.run_holder is null
    group by 1, 2, 3 order by min(i.run_due), 3
"""
POLICY = """
    select r.sub_stalls as stall_policy, r.sub_stall_after as stall_after,
        r.sub_stall_bytes as stall_bytes, r.sub_detached as detached
    from pgq.registration r
    join pgq.queue q on q.queue_id = r.sub_queue
    join pgq.consumer c on c.co_id = r.sub_consumer
    where q.queue_name = %s and c.co_name = %s
"""


def with_details(client: Client, infos: list[ConsumerInfo]) -> list[Row]:
    """Add to each consumer counts, its mode, the session that runs it, its workers and leases.

    The lag is the one that the dashboard shows.
    """
    from pgqpy.watch.snapshot import shown_lag

    try:
        counts = {row[:2]: row for row in client.call(calls.admin.get_consumer_counts())}
        found = client.call(calls.admin.get_worker_info())
    except SchemaMissing:  # by the extension pgq
        counts, found = {}, []
    with client.connection.cursor(row_factory=dict_row) as cursor:
        sessions = cursor.execute(locks.RUNNING).fetchall()
        claims = cursor.execute(LEASES).fetchall() if found else []
    leases: dict[tuple[str, str], list[Row]] = {}
    for claim in claims:
        leases.setdefault((claim.pop("queue_name"), claim.pop("co_name")), []).append(claim)
    known: dict[tuple[str, ...], list[WorkerInfo]] = {}
    for each in found:
        known.setdefault(each[:2], []).append(each)

    def row(info: ConsumerInfo) -> Row:
        names = (info.queue_name, info.consumer_name)
        counted = counts.get(names)
        mine = known.get(names, [])
        own = next((each for each in mine if each.worker is None), None)
        workers = [_worker(each, sessions) for each in mine if _has_a_worker(each)]
        for each in workers:  # no lane waits if the slowest one does not
            each["lag"] = shown_lag(each["lag"], info.pending_events)
        has_lanes = own is not None and own.mode == "lanes"
        of_it = [each for each in sessions if (each["queue_name"], each["consumer_name"]) == names]
        return {
            **info._asdict(),
            "lag": shown_lag(info.lag, info.pending_events),
            "retry_events": counted and counted.retry_events,
            "dead_events": counted and counted.dead_events,
            "parked_events": counted and counted.parked_events,
            "mode": own and own.mode,
            "filter": own and own.filter,
            "careful": own and _careful(own),
            "runs": None if workers else next(map(_session, of_it), None),
            "processes": len(of_it) if has_lanes else None,  # those with a lease hold nothing
            "workers": workers,
            "leases": leases.get(names, []),
        }

    return [row(info) for info in infos]


def policy_details(client: Client, queue: str, name: str) -> dict[str, Any]:
    """Return a consumer's policy, and since when it is detached; nothing on PGQ's extension."""
    with suppress(UndefinedTable), client.connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(POLICY, [queue, name]).fetchone() or {}
    return {}


def policy_as_text(policy: str, after: timedelta | None, size: int | None) -> str:
    """Describe a policy with its limits."""
    limits = [f"after {duration(after)}"] if after is not None else []
    limits += [f"from {size} bytes on"] if size is not None else []
    return f"{policy} {' or '.join(limits)}" if limits else policy


def _has_a_worker(each: WorkerInfo) -> bool:
    """Say whether this is a worker's; a worker with a lease has a subconsumer while it works."""
    if each.worker is None:
        return False
    return each.current_batch is not None or not each.worker.startswith(LEASED)


def _careful(each: WorkerInfo) -> str | None:
    if each.part_size is None:
        return None
    ends = f", {each.tries} crash(es)" if each.tries else ""
    return f"parts of {each.part_size}{ends}"


def _worker(each: WorkerInfo, sessions: list[Row]) -> Row:
    running = next((session for session in sessions if session["pid"] == each.pid), {})
    fields = {name: value for name, value in each._asdict().items() if name not in NAMES}
    session = {"host": running.get("host"), "application": running.get("application")}
    return {**fields, "batch": each.current_batch, **session}


def _session(session: Row) -> Row:
    return {name: session[name] for name in ("pid", "host", "application")}


def running(row: Row) -> str | None:
    """Describe who runs the consumer: so many workers and leases, or a session; None: nobody."""
    at_work = sum(worker["alive"] is True for worker in row["workers"])
    has_lanes = row["mode"] == "lanes"
    counts = {
        "worker(s)": row["processes"] if has_lanes else at_work,
        "lane(s) at work": at_work if has_lanes else 0,
        "lease(s)": sum(map(_is_live, row["leases"])),
    }
    if any(counts.values()):
        return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return None if row["runs"] is None else _session_as_text(row["runs"])


def as_text(row: Row) -> Row:
    """Replace the fields filter, runs, workers and leases by lines of text."""
    kind = "lane" if row["mode"] == "lanes" else "worker"
    texts = {f"{kind} {each['worker']}": _worker_as_text(each) for each in row["workers"]}
    texts |= {f"lease {each['token']}": _lease_as_text(each) for each in row["leases"]}
    inner = ("workers", "leases", "processes", "stall_after", "stall_bytes")
    fields = {name: value for name, value in row.items() if name not in inner}
    if row["filter"] is not None:
        fields["filter"] = describe_filter(None, row["filter"])
    if "stall_policy" in row:
        limits = (row["stall_after"], row["stall_bytes"])
        fields["stall_policy"] = policy_as_text(row["stall_policy"], *limits)
        fields["detached"] = row["detached"] or "no"
    return {**fields, "runs": running(row) or "no", **texts}


def _worker_as_text(worker: Row) -> str:
    """Describe a worker in one line: batch, attempt, progress, last heartbeat, who has it."""
    seen = f"last seen {duration(worker['last_seen'])} ago"
    if worker["batch"] is None and worker["last_tick"] is not None:  # a lane
        lag = "not known" if worker["lag"] is None else duration(worker["lag"])
        return f"at tick {worker['last_tick']}, lag {lag}, {seen}"
    if worker["batch"] is None:
        return f"idle, {seen}, runs: {_session_as_text(worker)}"
    batch = f"batch {worker['batch']} (ticks {worker['last_tick']} to {worker['next_tick']})"
    parts = [batch, f"attempt {worker['attempt']}"]
    if worker["part_size"] is not None:
        parts.append(f"parts of {worker['part_size']}")
    parts += [f"last progress {duration(worker['last_move'])} ago", seen, _holder_as_text(worker)]
    return ", ".join(parts)


def _holder_as_text(worker: Row) -> str:
    """Say who has the batch, as far as the server knows."""
    if worker["alive"] is False:
        process = (worker["holder"] or "").rpartition(":")[0]  # without the random part
        how = f"died ({process})" if process else "released"
        return f"{how}: waits to be taken over"
    if worker["lease_left"] is not None:
        return f"leased for {duration(worker['lease_left'])} more"
    return f"runs: {_session_as_text(worker) if worker['alive'] else 'not known'}"


def _session_as_text(session: Row) -> str:
    """Describe a session in one line: process, host, application."""
    if session["pid"] is None:
        return "no"
    known = [session[name] for name in ("host", "application") if session[name]]
    return ", ".join([f"pid {session['pid']}", *known])


def _is_live(lease: Row) -> bool:
    return bool(lease["ends_in"] > timedelta(0))


def _lease_as_text(lease: Row) -> str:
    """Describe a lease in one line: messages, attempt, end."""
    what = f"{lease['messages']} message(s), attempt {lease['attempt']}"
    if _is_live(lease):
        return f"{what}, ends in {duration(lease['ends_in'])}"
    return f"{what}, ended {duration(-lease['ends_in'])} ago, goes to a later receive"
