"""The check of the ticker: does one run, and does every queue get its ticks."""

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


CHECKS = (Check("ticker", TICKS, judge_ticks),)
