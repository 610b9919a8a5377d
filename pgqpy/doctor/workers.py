"""Checks of workers: dead with a batch that nobody takes over, without progress, careful."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.doctor.consumers import GONE, HANGS, QUIET
from pgqpy.doctor.finding import Finding, Row
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

# The open batches of workers, and how many workers and receivers of their consumer live.
WORKERS = """
    select * from (
        select *, count(*) filter (where worker is not null and alive)
            over (partition by queue_name, consumer_name) as live
        from pgq.get_worker_info()) w
    where worker is not null and current_batch is not null
    order by queue_name, consumer_name, current_batch
"""


def judge_workers(rows: list[Row]) -> Iterator[Finding]:
    """Report batches that nobody takes over, and workers that finish nothing.

    If no worker lives at all, the check "running" reports the consumer. A lease limits itself.
    """
    for row in rows:
        if row["alive"] is False:
            if row["live"] and row["last_seen"] > QUIET:
                yield _not_taken_over(row)
        elif row["lease_left"] is None and row["last_move"] > GONE:
            yield _without_progress(row)


def _not_taken_over(row: Row) -> Finding:
    queue, consumer = row["queue_name"], row["consumer_name"]
    if row["messages"] is not None:
        why = f"the lease of {row['messages']} message(s) has ended"
    elif row["holder"] is None:
        why = "it was released"
    else:
        why = f"worker {row['worker']} ({_process(row)}) died"
    what = (
        f"batch {row['current_batch']} of consumer {consumer} of queue {queue} waits to be taken "
        f"over: {why}, last seen {duration(row['last_seen'])} ago, and the {row['live']} worker(s) "
        "that live are busy"
    )
    remedy = (
        "start one more worker: pgqpy consumer run MODULE:CLASS; "
        f"pgqpy consumer show {queue} {consumer} tells what the others do"
    )
    return Finding("fail" if row["last_seen"] > GONE else "warn", "worker", what, remedy)


def _without_progress(row: Row) -> Finding:
    what = (
        f"worker {row['worker']} of consumer {row['consumer_name']} of queue {row['queue_name']} "
        f"has finished nothing of batch {row['current_batch']} for {duration(row['last_move'])}"
    )
    if row["last_seen"] <= GONE:
        return Finding("warn", "worker", f"{what}, though it gives signs of life", HANGS)
    what += f", and gave no sign of life for {duration(row['last_seen'])}"
    if row["alive"]:
        remedy = (
            f"it is stopped or cannot be reached: end {_process(row)}; select "
            f"pg_terminate_backend({row['pid']}) lets another worker take the batch over"
        )
    else:
        remedy = (
            "see whether its program runs; another worker takes the batch over if it names an "
            "i_dead_interval"
        )
    return Finding("warn", "worker", what, remedy)


def _process(row: Row) -> str:
    """Name the process of a run by its token, host:pid:random."""
    host, _, pid = (row["holder"] or "").rpartition(":")[0].rpartition(":")
    return f"process {pid} on {host}" if host else "its process"


# Of each consumer the worker that is nearest to the event that kills. A subconsumer that no process
# uses keeps its mode for the next one: it is left out.
CAREFUL = """
    select distinct on (queue_name, consumer_name) *
    from pgq.get_worker_info()
    where part_size is not null and (worker is null or alive or current_batch is not null)
    order by queue_name, consumer_name, tries desc nulls last, part_size
"""


def judge_careful(rows: list[Row]) -> Iterator[Finding]:
    """Report consumers in careful mode: a run had an unclean end in the middle of a batch."""
    for row in rows:
        queue, consumer = row["queue_name"], row["consumer_name"]
        what = (
            f"a run of consumer {consumer} of {queue} had an unclean end: "
            f"parts of {row['part_size']} event(s) are to find the event that kills"
        )
        if row["tries"]:
            after = "" if row["finished_to"] is None else f" after id {row['finished_to']}"
            what += (
                f"; {row['tries']} unclean end(s) at the first event{after} of batch "
                f"{row['current_batch']}, which is handled for the {row['attempt']}. time"
            )
        remedy = (
            "see the log, and whether memory is short; many quiet parts end the careful mode; "
            "after max_attempts unclean ends the event is dead, and "
            f"pgqpy event dead {queue} {consumer} lists it"
        )
        yield Finding("warn", "careful", what, remedy)
