"""Checks of lanes: those that wait while others go on, and changes that are not done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy import locks
from pgqpy.doctor.consumers import GONE, QUIET
from pgqpy.doctor.finding import Finding, Row, command
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

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
