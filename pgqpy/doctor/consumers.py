"""Checks of consumers: behind, detached, not running; retry and dead events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy import locks
from pgqpy.doctor.finding import Finding, Level, Row, command, in_future, is_ahead, unregistering
from pgqpy.texts import duration, noun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

LEAST_LAG = timedelta(minutes=10)  # a smaller one is never a failure
QUIET = timedelta(minutes=1)
UNATTENDED = timedelta(minutes=10)
RETRY_SLACK = timedelta(minutes=1)
MANY_FAILING = 10  # events that failed five times or more
HANGS = (
    "look into its log, as an error may end each of its runs; else look whether its handler hangs, "
    "or whether it waits because of min_count; handler_timeout ends a process that hangs, and "
    "part_size keeps the progress of a long batch"
)
STOPS = (
    "look into its log: an error may end each of its runs; with on_error = 'retry' a consumer goes "
    "on with the other events"
)

# Subconsumers are left out. So are detached consumers, here and in RUNNING: they hold up no
# rotation, and the check "stalled" names them.
CONSUMERS = """
    select i.queue_name, i.consumer_name, i.lag, i.last_seen, i.pending_events,
        q.queue_rotation_period as rotation_period
    from pgq.get_consumer_info() i join pgq.queue q on q.queue_name = i.queue_name
        join pgq.consumer c on c.co_name = i.consumer_name
        join pgq.registration s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
    where s.sub_parent is null and i.last_tick is not null and s.sub_detached is null order by 1, 2
"""


def judge_consumers(rows: list[Row]) -> Iterator[Finding]:
    """Report consumers that lag more than a rotation period: they keep old tables."""
    blocking = [
        row
        for row in rows
        if row["pending_events"] and row["lag"] > max(row["rotation_period"], LEAST_LAG)
    ]
    for row in blocking:
        queue, consumer = row["queue_name"], row["consumer_name"]
        what = (
            f"consumer {consumer} blocks the rotation of queue {queue}: "
            f"{duration(row['lag'])} behind, {row['pending_events']} "
            f"{noun(row['pending_events'], 'pending event')}, "
            f"last seen {duration(row['last_seen'])} ago"
        )
        remedy = f"run it, or give it up: {unregistering(queue, consumer)}"
        yield Finding("fail", "consumer", what, remedy)
    if not blocking:
        yield Finding("ok", "consumer", f"{len(rows)} consumer(s), none blocks rotation")


# waited: how long events have waited, see get_waiting_since; those in flight of a shared consumer
# too. Positions whose tick does not exist are left to the check "position". runs: a session, or a
# lease that has not ended. locker: whose transaction may hold it up.
RUNNING: LiteralString = f"""
    select i.queue_name, i.consumer_name, i.last_seen, i.current_batch as batch,
        i.pending_events + coalesce(f.fresh + f.returned + f.in_pieces, 0) as pending_events,
        f.lag is not null as shared,
        (select p.pos_pins is not null from pgq.current_position p
            where p.sub_id = s.sub_id) as by_ticks,
        greatest(now() - pgq.get_waiting_since(i.queue_name, i.consumer_name), f.oldest) as waited,
        r.pid is not null or exists (
            select from pgq.get_holders(i.queue_name, i.consumer_name) h
            where h.lease_until > clock_timestamp()) as runs,
        now() - (select max(p.pos_moved) from pgq.current_position p
            where s.sub_id in (p.sub_id, p.sub_parent)) as last_move,
        (select locker from ({locks.LOCKERS}) l limit 1) as locker
    from pgq.get_consumer_info() i
        join pgq.queue q on q.queue_name = i.queue_name
        join pgq.tick done on done.tick_queue = q.queue_id and done.tick_id = i.last_tick
        join pgq.consumer c on c.co_name = i.consumer_name
        join pgq.registration s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
        left join (select distinct on (1, 2) * from ({locks.RUNNING}) r) r
            on r.queue_name = i.queue_name and r.consumer_name = i.consumer_name
        left join pgq.get_inflight() f
            on f.queue_name = i.queue_name and f.consumer_name = i.consumer_name
    where s.sub_parent is null and s.sub_detached is null order by 1, 2
"""  # noqa: S608  # our own query within our own


def judge_running(rows: list[Row]) -> Iterator[Finding]:
    """Report consumers that no session runs while events wait, or that finish nothing.

    A program that calls the SQL functions directly holds no lock; it counts as running if it was
    seen recently.
    """
    idle = [row for row in rows if not row["runs"] and _unattended(row) > QUIET]
    for row in idle:
        queue, consumer = row["queue_name"], row["consumer_name"]
        seen = f"last seen {duration(row['last_seen'])} ago"
        if is_ahead(row["last_seen"]):
            seen = f"its last call {in_future(row['last_seen'])}"
        batch = "it was" if row["batch"] is None else f"its batch {row['batch']} is open,"
        oldest = f"the oldest for {duration(row['waited'])}"
        if is_ahead(row["waited"]):
            oldest = f"their tick {in_future(row['waited'])}"
        what = (
            f"no session runs consumer {consumer} of queue {queue}: "
            f"about {row['pending_events']} event(s) wait, "
            f"{oldest}; {batch} {seen}"
        )
        # A program without the lock looks the same while it processes a long batch. An archive
        # runs from time to time: judge_consumers reports it if rotation waits for it for too long.
        at_times = row["by_ticks"] and consumer.startswith("archive")
        level: Level = "warn" if at_times or _unattended(row) <= UNATTENDED else "fail"
        remedy = f"run {_runner(row)}, or give it up: {unregistering(queue, consumer)}"
        yield Finding(level, "running", what, _lock_first(row, remedy))
    # Of a shared one, the check "inflight" tells of what is claimed for long.
    hanging = [
        row
        for row in rows
        if (row["runs"] or _unattended(row) <= QUIET)
        and not row["shared"]
        and _unattended(row, "last_move") > UNATTENDED
    ]
    for row in hanging:
        queue, consumer = row["queue_name"], row["consumer_name"]
        how = "runs" if row["runs"] else f"was seen {duration(row['last_seen'])} ago"
        what = (
            f"consumer {consumer} of queue {queue} {how}, but has finished nothing for "
            f"{duration(row['last_move'])}: about {row['pending_events']} event(s) wait"
        )
        yield Finding("warn", "running", what, _lock_first(row, HANGS if row["runs"] else STOPS))
    if not idle and not hanging:
        count = sum(row["runs"] for row in rows)
        # Others may have been seen, or have got events, in the last minute: too early to tell.
        soon = any(row["pending_events"] and not row["runs"] for row in rows)
        wait = (
            f"have waited for the others for more than {duration(QUIET)}"
            if soon
            else "wait for the others"
        )
        what = f"{count} of {len(rows)} consumer(s) run, no events {wait}"
        yield Finding("ok", "running", what)


def _lock_first(row: Row, remedy: str) -> str:
    """Return a remedy that is for a consumer that does not wait for another session's lock."""
    if not row["locker"]:
        return remedy
    pid, *others = row["locker"]
    holder = locks.LockOwner(pid and int(pid), *others)
    return (
        f"if it runs and its log tells of a lock, it may wait for {holder}, whose transaction has "
        f"locked registrations of consumers: {holder.how_to_end}; else {remedy}"
    )


def _runner(row: Row) -> str:
    """Name what runs a consumer."""
    if row["by_ticks"]:
        return "the archive or Spark query that uses it"
    program = ", or the program that calls receive" if row["shared"] else ""
    return f"it (pgqpy consumer run MODULE:CLASS{program})"


def _unattended(row: Row, call: str = "last_seen") -> timedelta:
    """Return how long events have waited without a call (last_move: that moved) by the consumer."""
    if row["waited"] is None:
        return timedelta(0)
    known = [each for each in (row["waited"], row[call]) if not is_ahead(each)]
    return min(known, default=UNATTENDED + QUIET)


# The attempts are null where nobody counts them.
CRASHES = """
    select q.queue_name, c.co_name as consumer_name, p.pos_batch as batch,
        p.pos_attempts as attempts
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.consumer c on c.co_id = p.sub_consumer
    where p.pos_batch is not null and p.pos_attempts > 1 order by 1, 2
"""


def judge_crashes(rows: list[Row]) -> Iterator[Finding]:
    """Report plain consumers whose processes died with their open batch."""
    for row in rows:
        queue, consumer = row["queue_name"], row["consumer_name"]
        what = (
            f"batch {row['batch']} of consumer {consumer} of queue {queue} is handled for the "
            f"{row['attempts']}. time: the processes before died with it"
        )
        remedy = (
            "see the log, and whether memory is short; small parts find the event that kills, "
            f"which is dead then, and {command('event', 'list', queue, 'dead', consumer)} lists it"
        )
        yield Finding("warn", "crash", what, remedy)


RETRIES = """
    select q.queue_name, c.co_name as consumer_name,
        count(*) filter (where r.ev_retry_after < now()) as due,
        now() - least(greatest(min(r.ev_retry_after), 'epoch'), now()) as overdue,
        count(*) filter (where r.ev_retry >= 5) as failing, max(r.ev_retry) as retries
    from pgq.retry_queue r join pgq.subscription s on s.sub_id = r.ev_owner
        join pgq.queue q on q.queue_id = s.sub_queue join pgq.consumer c on c.co_id = s.sub_consumer
    group by 1, 2 order by 1, 2
"""


def judge_retries(rows: list[Row]) -> Iterator[Finding]:
    """Report retry events that are overdue, and consumers with many events that keep failing."""
    for row in rows:
        queue, consumer = row["queue_name"], row["consumer_name"]
        if row["overdue"] > RETRY_SLACK:
            what = (
                f"{row['due']} retry event(s) for consumer {consumer} of {queue} are due, "
                f"the oldest since {duration(row['overdue'])}"
            )
            remedy = "pgqpy ticker run puts them back; its log says why one fails"
            yield Finding("fail", "retry", what, remedy)
        # One such event may be bad data; many mean a bad handler.
        if row["failing"] >= MANY_FAILING:
            what = (
                f"consumer {consumer} of {queue} has {row['failing']} events in the retry queue "
                f"that failed 5 times or more, up to {row['retries']} times"
            )
            remedy = (
                "its log says why; after max_retries they are dead events; "
                f"{command('consumer', 'show', queue, consumer)} counts both"
            )
            yield Finding("warn", "retry", what, remedy)


# Counted up to 10,000: a million dead events would take a second. Every role may ask.
MANY_DEAD = 10_000
DEAD = """
    select queue_name, consumer_name, dead_events as events
    from pgq.get_consumer_counts() where dead_events > 0
"""


def judge_dead(rows: list[Row]) -> Iterator[Finding]:
    """Report the number of each consumer's dead events."""
    for row in rows:
        queue, consumer = row["queue_name"], row["consumer_name"]
        more = " or more" if row["events"] >= MANY_DEAD else ""
        what = f"consumer {consumer} of {queue} has {row['events']}{more} dead event(s)"
        dead = command("event", "list", queue, "dead", consumer)
        retry, delete = (command("event", verb, queue, consumer) for verb in ("retry", "delete"))
        remedy = f"{dead} lists them, {retry} --all retries them, {delete} --all deletes them"
        yield Finding("warn", "dead", what, remedy)


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
