"""Checks of ticks, switched-off queues, consumers, rotation, stages, retry and dead events."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pgqpy import locks
from pgqpy.doctor.finding import Check, Finding, rough

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

    from pgqpy.doctor.finding import Row

TICK_SLACK = timedelta(seconds=10)
RETRY_SLACK = timedelta(minutes=1)
ROTATION_SLACK = timedelta(minutes=10)
STAGE_SLACK = timedelta(hours=1)
MANY_FAILING = 10  # events that failed five times or more

# pgqpy's ticker holds a lock; another one, such as pgqd, shows only by its recent ticks.
TICKS: LiteralString = f"""
    select i.queue_name, i.queue_ticker_paused as paused, i.queue_external_ticker as external,
        i.queue_ticker_max_lag as max_lag, i.queue_ticker_idle_period as idle_period,
        i.ticker_lag, i.ev_new,
        (select count(*) from pgq.tick t join pgq.queue q on q.queue_id = t.tick_queue
            where q.queue_name = i.queue_name) < 2 as untouched,
        (select format('%s, server process %s, role %s', application, pid, role)
            from ({locks.HOLDERS}) h
            where class = 7366513 and object = 0 and pid is not null and may_tick is not false
            limit 1) as leader,
        exists (select from pg_extension where extname = 'pgq') as extension
    from (select) as one left join pgq.get_queue_info() i on true
    order by 1
"""  # noqa: S608  # our own query within our own


def judge_ticks(rows: list[Row]) -> Iterator[Finding]:
    """Report a missing ticker, and queues that get no ticks."""
    leader = rows[0]["leader"]
    wanted = [row for row in rows if row["queue_name"] and not row["paused"]]
    external = [_external_late(row) for row in wanted if row["external"] and _is_late(row)]
    yield from external
    ours = [row for row in wanted if not row["external"]]
    if ours or not external:
        yield from _judge_ours(ours, leader, "every other queue" if external else "every queue")


def _external_late(row: Row) -> Finding:
    queue = row["queue_name"]
    what = f"the external ticker of queue {queue} does not tick: {_waits(row)}"
    remedy = (
        "run the program that calls pgq.ticker(queue, tick_id, time, event_seq) for it, or give it "
        f"to pgqpy's ticker: pgqpy queue set {queue} external_ticker=false"
    )
    return Finding("warn", "ticker", what, remedy)


def _judge_ours(ours: list[Row], leader: str | None, which: str) -> Iterator[Finding]:
    """Judge the queues of pgqpy's ticker; `which` names them in a sentence."""
    late = [row for row in ours if _is_late(row)]
    if leader is None and ours and all(row["untouched"] for row in ours):
        late = ours  # only the ticks of create_queue: no ticker has ever run
    if late and leader is None:
        yield _no_ticker(late)
    for row in late if leader is not None else []:
        what = f"a ticker runs ({leader}), but {_waits(row)}"
        yield Finding("fail", "ticker", what, "see the ticker's log for the error of this queue")
    if late:
        return
    if leader is not None:
        yield Finding("ok", "ticker", f"a ticker runs ({leader}), {which} is ticked in time")
    elif ours and ours[0]["extension"]:
        yield Finding("ok", "ticker", "the last ticks are recent: a ticker of PGQ's, pgqd, runs")
    elif ours:
        yield Finding(
            "warn",
            "ticker",
            "no ticker of pgqpy's runs in this database, though the last ticks are recent",
            "pgqpy ticker run (fine as it is if another daemon, such as pgqd, ticks)",
        )
    else:
        yield Finding("ok", "ticker", "no queue needs a ticker")


def _is_late(row: Row) -> bool:
    if row["ticker_lag"] is None:
        return True
    allowed = row["max_lag"] if row["ev_new"] else 2 * row["idle_period"] + row["max_lag"]
    return bool(row["ticker_lag"] > allowed + TICK_SLACK)


def _waits(row: Row) -> str:
    if row["ticker_lag"] is None:
        return f"queue {row['queue_name']} was never ticked"
    if row["untouched"] and not row["ev_new"]:
        return f"queue {row['queue_name']} was never ticked since it was made"
    waiting = f", {row['ev_new']} event(s) wait" if row["ev_new"] else ""
    return f"the last tick of queue {row['queue_name']} is {rough(row['ticker_lag'])} old{waiting}"


def _no_ticker(late: list[Row]) -> Finding:
    what = "no ticker is running: " + "; ".join(_waits(row) for row in late[:5])
    more = f"; and {len(late) - 5} more queue(s)" if len(late) > 5 else ""  # noqa: PLR2004  # as above
    remedy = "start PGQ's pgqd" if late[0]["extension"] else "pgqpy ticker run"
    return Finding("fail", "ticker", what + more, remedy)


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


CONSUMERS = """
    select c.queue_name, c.consumer_name, c.lag, c.last_seen, c.pending_events,
        q.queue_rotation_period as rotation_period, now() - q.queue_switch_time as switched
    from pgq.get_consumer_info() c join pgq.queue q on q.queue_name = c.queue_name
    where c.last_tick is not null order by 1, 2
"""


def judge_consumers(rows: list[Row]) -> Iterator[Finding]:
    """Report consumers that lag more than a rotation period: they keep old tables."""
    blocking = [
        row
        for row in rows
        if row["pending_events"] and row["lag"] > max(row["rotation_period"], ROTATION_SLACK)
    ]
    for row in blocking:
        queue, consumer = row["queue_name"], row["consumer_name"]
        what = (
            f"consumer {consumer} blocks the rotation of queue {queue}: "
            f"{rough(row['lag'])} behind, {row['pending_events']} pending events, "
            f"last seen {rough(row['last_seen'])} ago"
        )
        remedy = f"run it, or give it up: pgqpy consumer unregister {queue} {consumer}"
        yield Finding("fail", "consumer", what, remedy)
    if not blocking:
        yield Finding("ok", "consumer", f"{len(rows)} consumer(s), none blocks rotation")


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
            yield Finding("warn", "stage", what, f"if nobody will: {row['drop']}")


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
                f"the oldest since {rough(row['overdue'])}"
            )
            yield Finding("fail", "retry", what, "pgqpy ticker run puts them back")
        # One such event may be bad data; many mean a bad handler.
        if row["failing"] >= MANY_FAILING:
            what = (
                f"consumer {consumer} of {queue} has {row['failing']} events in the retry queue "
                f"that failed 5 times or more, up to {row['retries']} times"
            )
            remedy = (
                "its log says why; after max_retries they are dead events; "
                f"pgqpy consumer show {queue} {consumer} counts both"
            )
            yield Finding("warn", "retry", what, remedy)


DEAD = """
    select q.queue_name, c.co_name as consumer_name, count(*) as events
    from pgq.dead_event d join pgq.registration s on s.sub_id = d.ev_owner
        join pgq.queue q on q.queue_id = s.sub_queue join pgq.consumer c on c.co_id = s.sub_consumer
    group by 1, 2 order by 1, 2
"""


def judge_dead(rows: list[Row]) -> Iterator[Finding]:
    """Report the number of each consumer's dead events."""
    for row in rows:
        queue, consumer = row["queue_name"], row["consumer_name"]
        what = f"consumer {consumer} of {queue} has {row['events']} dead event(s)"
        remedy = (
            f"pgqpy event dead {queue} {consumer} lists them, pgqpy event revive {queue} {consumer}"
            " --all retries them, pgqpy event delete deletes them"
        )
        yield Finding("warn", "dead", what, remedy)


CHECKS = (
    Check("ticker", TICKS, judge_ticks),
    Check("paused", SWITCHES, judge_switches),
    Check("consumer", CONSUMERS, judge_consumers),
    Check("rotation", ROTATION, judge_rotation),
    Check("stage", STAGES, judge_stages),
    Check("retry", RETRIES, judge_retries),
    Check("dead", DEAD, judge_dead),
)
