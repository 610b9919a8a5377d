"""Checks of workers and lanes: not taken over, without progress, far behind others, careful."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import locks
from pgqpy.doctor.consumers import GONE, HANGS, QUIET, STOPS
from pgqpy.doctor.finding import Finding, Row, command
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

TAKEN_OVER = (
    "look into the workers' logs: after `no heartbeat`, let their role or pool have one more "
    "connection for each worker, raise dead_interval, or set a smaller part_size; else see "
    "whether a handler hangs"
)

# The open batches of workers, and how many workers of their consumer live. behind:
# from the end of the batch to the end of what was taken last. The age of the batch would be no
# measure: with min_lag each one is old. A tick that is not there is for the check "position".
WORKERS = """
    select w.*, coalesce((
        select max(t.tick_time) filter (where t.tick_id = w.taken)
            - max(t.tick_time) filter (where t.tick_id = w.next_tick)
        from pgq.tick t join pgq.queue q on q.queue_id = t.tick_queue
        where q.queue_name = w.queue_name and t.tick_id in (w.taken, w.next_tick)), '0') as behind
    from (
        select *, count(*) filter (where worker is not null and alive) over consumer as live,
            count(*) filter (where worker is not null and alive and current_batch is null)
                over consumer as idle,
            max(last_tick) filter (where worker is null) over consumer as taken
        from pgq.get_worker_info()
        window consumer as (partition by queue_name, consumer_name)) w
    where worker is not null and current_batch is not null
    order by queue_name, consumer_name, current_batch
"""


def judge_workers(rows: list[Row]) -> Iterator[Finding]:
    """Report batches that nobody takes over, and workers that finish nothing, or far too slowly.

    If no worker lives at all, the check "running" reports the consumer. A lease does not end while
    a handler hangs: a worker extends it. A batch that was released a moment ago counts as one that
    is worked on: an error may end each run.
    """
    for row in rows:
        released = row["alive"] is False and not row["holder"] and row["last_seen"] <= QUIET
        left = row["alive"] is False and not released
        if left and row["live"] and row["last_seen"] > QUIET:
            yield _not_taken_over(row)
        elif left:
            continue
        elif row["last_move"] > GONE:
            yield _without_progress(row)
        elif not released and row["lease_left"] is None and row["behind"] > GONE:
            yield _behind(row)


def _not_taken_over(row: Row) -> Finding:
    queue, consumer = row["queue_name"], row["consumer_name"]
    if row["holder"] is None:
        why = "it was released"
    else:
        why = f"{_name(row)} ({_process(row)}) died"
        if row["mode"] == "lanes":
            why = f"{_process(row)}, which had {_name(row)}, died"
    what = (
        f"batch {row['current_batch']} of consumer {consumer} of queue {queue} waits to be taken "
        f"over: {why}, last seen {duration(row['last_seen'])} ago, and the {row['live']} "
        "worker(s) that live are busy"
    )
    remedy = (
        "start one more worker: pgqpy consumer run MODULE:CLASS; "
        f"{command('consumer', 'show', queue, consumer)} tells what the others do"
    )
    return Finding("fail" if row["last_seen"] > GONE else "warn", "worker", what, remedy)


def _without_progress(row: Row) -> Finding:
    if row["alive"] is False:
        what = (
            f"batch {row['current_batch']} of consumer {row['consumer_name']} of queue "
            f"{row['queue_name']} was released {duration(row['last_seen'])} ago, and nothing of it "
            f"was finished for {duration(row['last_move'])}"
        )
        return Finding("warn", "worker", what, STOPS)
    what = (
        f"{_name(row)} of consumer {row['consumer_name']} of queue {row['queue_name']} "
        f"has finished nothing of batch {row['current_batch']} for {duration(row['last_move'])}"
    )
    if row["attempt"] > 1:
        what = (
            f"batch {row['current_batch']} of consumer {row['consumer_name']} of queue "
            f"{row['queue_name']} was taken over, and nothing of it was finished for "
            f"{duration(row['last_move'])}; {_name(row)} has it now"
        )
        return Finding("warn", "worker", what, TAKEN_OVER)
    if row["last_seen"] <= GONE:
        return Finding("warn", "worker", f"{what}, though it sends heartbeats", HANGS)
    what += f", and sent no heartbeat for {duration(row['last_seen'])}"
    if row["lease_left"] is not None:
        remedy = (
            "see whether its program runs; others get the events when its lease ends, in "
            f"{duration(row['lease_left'])}"
        )
    elif row["pid"] is not None:
        remedy = (
            f"it is stopped or cannot be reached: end {_process(row)}; select "
            f"pg_terminate_backend({row['pid']}) lets another process take the batch over"
        )
    else:
        remedy = (
            "see whether its program runs; another process takes the batch over if it names an "
            "i_dead_interval"
        )
    return Finding("warn", "worker", what, remedy)


def _behind(row: Row) -> Finding:
    queue, consumer = row["queue_name"], row["consumer_name"]
    what = (
        f"{_name(row)} of consumer {consumer} of queue {queue} still has batch "
        f"{row['current_batch']}, and what was taken last came {duration(row['behind'])} later; "
        f"{row['idle']} worker(s) have nothing to do, but none shares a batch of another one"
    )
    remedy = (
        f"{command('consumer', 'show', queue, consumer)} tells its last progress; look why its "
        "handler is slow; in careful mode it handles small parts, one after the other"
    )
    return Finding("warn", "worker", what, remedy)


def _name(row: Row) -> str:
    return f"{'lane' if row['mode'] == 'lanes' else 'worker'} {row['worker']}"


def _process(row: Row) -> str:
    """Name the process of a run by its token, host:pid:random."""
    host, _, pid = (row["holder"] or "").rpartition(":")[0].rpartition(":")
    return f"process {pid} on {host}" if host else "its process"


# Events that receivers claimed often, and that none of them has finished.
OFTEN = """
    select q.queue_name, c.co_name as consumer_name, sum(cardinality(run_ids))::int as messages,
        max(run_attempts) as attempts
    from pgq.inflight
        join pgq.registration r on r.sub_id = run_sub
        join pgq.queue q on q.queue_id = r.sub_queue
        join pgq.consumer c on c.co_id = r.sub_consumer
    where run_attempts > 5 group by 1, 2 order by 1, 2
"""


def judge_often(rows: list[Row]) -> Iterator[Finding]:
    """Report messages that are received again and again."""
    for row in rows:
        what = (
            f"{row['messages']} message(s) of consumer {row['consumer_name']} of queue "
            f"{row['queue_name']} were received up to {row['attempts']} times, and not finished"
        )
        remedy = (
            "look into the log of the program that receives them: it ends before done(), its lease "
            "is too short, or it retries for ever; message.dead() gives one up"
        )
        yield Finding("warn", "worker", what, remedy)


# Of each consumer the worker that is nearest to the event that kills. A subconsumer that no process
# uses keeps its mode for the next one: it is left out.
CAREFUL = """
    select distinct on (queue_name, consumer_name) *
    from pgq.get_worker_info()
    where part_size is not null and (worker is null or alive or current_batch is not null)
    order by queue_name, consumer_name, tries desc nulls last, part_size
"""


def judge_careful(rows: list[Row]) -> Iterator[Finding]:
    """Report consumers in careful mode: a run crashed in the middle of a batch."""
    for row in rows:
        queue, consumer = row["queue_name"], row["consumer_name"]
        what = (
            f"a run of consumer {consumer} of {queue} crashed, or sent no heartbeat: "
            f"parts of {row['part_size']} event(s) are to find the event that kills"
        )
        if row["tries"]:
            after = "" if row["finished_to"] is None else f" after id {row['finished_to']}"
            what += (
                f"; {row['tries']} crash(es) at the first event{after} of batch "
                f"{row['current_batch']}, which is handled for the {row['attempt']}. time"
            )
        remedy = (
            "see the log, which tells of `no heartbeat`, and whether memory is short; "
            "many quiet parts end the careful mode; "
            "after 5 crashes the event is dead, and "
            f"{command('event', 'list', queue, 'dead', consumer)} lists it"
        )
        yield Finding("warn", "careful", what, remedy)


# The lanes that nobody has and that may be taken, each with its next tick. waited: its age. behind:
# to the end of what another lane has taken. The age alone would be no measure: with min_lag each
# one is old. slow: the least time that a lane at work has finished nothing.
WAITING: LiteralString = f"""
    select l.*, i.busy, i.slow, r.processes,
        now() - t.tick_time as waited, last.tick_time - t.tick_time as behind
    from (
        select q.queue_id, q.queue_name, parent.co_name as consumer_name, p.pos_last_tick,
            c.co_name as lane, max(coalesce(p.pos_next_tick, p.pos_last_tick)) over (
                partition by p.sub_parent) as furthest,
            p.pos_batch, p.sub_stop_tick,
            bool_or(p.sub_stop_tick is not null) over (partition by p.sub_parent) as changing
        from pgq.current_position p
            join pgq.queue q on q.queue_id = p.sub_queue
            join pgq.consumer c on c.co_id = p.sub_consumer
            join pgq.registration s on s.sub_id = p.sub_parent
            join pgq.consumer parent on parent.co_id = s.sub_consumer
        where p.sub_mode = 'lane') l
        join (
            select queue_name, consumer_name, count(*) filter (where alive) as busy,
                min(last_move) filter (where alive) as slow
            from pgq.get_worker_info() where worker is not null group by 1, 2) i
            on i.queue_name = l.queue_name and i.consumer_name = l.consumer_name
        left join (
            select queue_name, consumer_name, count(*) as processes
            from ({locks.RUNNING}) h group by 1, 2) r
            on r.queue_name = l.queue_name and r.consumer_name = l.consumer_name
        join lateral (
            select tick_time from pgq.tick
            where tick_queue = l.queue_id and tick_id > l.pos_last_tick
            order by tick_id limit 1) t on true
        join pgq.tick last on last.tick_queue = l.queue_id and last.tick_id = l.furthest
    where l.pos_batch is null
        and (not l.changing or l.pos_last_tick < l.sub_stop_tick)
    order by 1, 3, waited desc, length(l.lane), l.lane
"""  # noqa: S608  # our own query within our own


def judge_waiting(rows: list[Row]) -> Iterator[Finding]:
    """Report, for each running consumer, the lane that has waited longest, if it is too long.

    If no process runs at all, the check "running" reports the consumer.
    """
    told = set()
    for row in rows:
        names = (row["queue_name"], row["consumer_name"])
        processes = max(row["processes"] or 0, row["busy"])  # those with a lease hold no lock
        stuck = processes <= row["busy"] and row["slow"] is not None and row["slow"] > QUIET
        late = row["waited"] > QUIET and (stuck or row["behind"] > QUIET)
        if not processes or not late or names in told:
            continue
        told.add(names)
        what = (
            f"nobody works on lane {_lane(row)} of consumer {names[1]} of queue {names[0]}, which "
            f"is {duration(row['waited'])} behind: {processes} worker(s) run, and have "
            f"{row['busy']} lane(s)"
        )
        remedy = (
            "start more workers (pgqpy consumer run MODULE:CLASS), or look why the handlers are "
            f"slow: {command('consumer', 'show', *names)} tells what each lane does"
        )
        yield Finding("fail" if row["waited"] > GONE else "warn", "lane", what, remedy)


# The changes of lanes that are not done: old lanes end at a tick that not all of them have reached.
# last_move: of an old lane, or since the change, when the new lanes were made.
CHANGES = """
    select q.queue_name, c.co_name as consumer_name, max(p.sub_stop_tick) as stop_tick,
        count(*) filter (where p.pos_last_tick < p.sub_stop_tick) as left,
        now() - max(p.pos_moved) as last_move
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.registration s on s.sub_id = p.sub_parent
        join pgq.consumer c on c.co_id = s.sub_consumer
    where p.sub_mode = 'lane'
    group by 1, 2 having count(p.sub_stop_tick) > 0 order by 1, 2
"""


def judge_changes(rows: list[Row]) -> Iterator[Finding]:
    """Report changes of lanes that do not go on: the new lanes wait for the old ones."""
    for row in rows:
        if row["left"] and row["last_move"] > QUIET:
            queue, consumer = row["queue_name"], row["consumer_name"]
            what = (
                f"the lanes of consumer {consumer} of queue {queue} are being changed, and nothing "
                f"has moved for {duration(row['last_move'])}: {row['left']} old lane(s) are not at "
                f"tick {row['stop_tick']} yet, and the new lanes wait for them"
            )
            remedy = (
                "run it until the change is done (pgqpy consumer run MODULE:CLASS); "
                f"{command('consumer', 'show', queue, consumer)} tells who has the old lanes"
            )
            yield Finding("warn", "lane", what, remedy)


def _lane(row: Row) -> str:
    return str(row["lane"].removeprefix(f"{row['consumer_name']}."))
