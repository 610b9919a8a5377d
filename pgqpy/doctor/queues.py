"""Checks of queues and cron entries: late ticks, rotation or events overdue, old stages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from pgqpy import locks
from pgqpy.doctor.finding import Finding, Row, command, in_future, is_ahead
from pgqpy.errors import InvalidArgument
from pgqpy.schedule import schedule, should_fire
from pgqpy.texts import duration, noun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import LiteralString

TICK_SLACK = timedelta(seconds=10)
ROTATION_SLACK = timedelta(minutes=10)
STAGE_SLACK = timedelta(hours=1)
DELAY_SLACK = timedelta(minutes=1)
CRON_SLACK = timedelta(minutes=2)  # a new entry is noticed within seconds, a takeover is short
CRON_PAUSED = timedelta(days=1)

# pgqpy's ticker holds a lock; another one, such as pgqd, shows only by its recent ticks.
TICKS: LiteralString = f"""
    select i.queue_name, i.queue_ticker_paused as paused, i.queue_external_ticker as external,
        i.queue_ticker_max_lag as max_lag, i.queue_ticker_idle_period as idle_period,
        i.ticker_lag, i.ev_new,
        (select count(*) from (select from pgq.tick t join pgq.queue q on q.queue_id = t.tick_queue
            where q.queue_name = i.queue_name limit 2) two) < 2 as untouched,
        (select format('%s, server process %s, role %s', application, pid, role)
            from ({locks.OWNERS}) h
            where class = {locks.ENGINE} and object = {locks.TICKING} and pid is not null
                and may_tick is not false
            limit 1) as ticker,
        exists (select from pg_extension where extname = 'pgq') as extension
    from (select) as one left join pgq.get_queue_info() i on true
    order by 1
"""  # noqa: S608  # our own query within our own


def judge_ticks(rows: list[Row]) -> Iterator[Finding]:
    """Report a missing ticker, and queues that get no ticks."""
    ticker = rows[0]["ticker"]
    wanted = [row for row in rows if row["queue_name"] and not row["paused"]]
    external = [_external_late(row) for row in wanted if row["external"] and _is_late(row)]
    yield from external
    ours = [row for row in wanted if not row["external"]]
    if ours or not external:
        yield from _judge_ours(ours, ticker, "every other queue" if external else "every queue")


def _external_late(row: Row) -> Finding:
    queue = row["queue_name"]
    what = f"the external ticker of queue {queue} does not tick: {_waits(row)}"
    remedy = (
        "run the program that calls pgq.ticker(queue, tick_id, time, event_seq) for it, or give it "
        f"to pgqpy's ticker: {command('queue', 'set', queue)} external_ticker=false"
    )
    return Finding("warn", "ticker", what, remedy)


def _judge_ours(ours: list[Row], ticker: str | None, which: str) -> Iterator[Finding]:
    """Judge the queues of pgqpy's ticker; `which` names them in a sentence."""
    late = [row for row in ours if _is_late(row)]
    if ticker is None and ours and all(row["untouched"] for row in ours):
        late = ours  # only the ticks of create_queue: no ticker has ever run
    if late and ticker is None:
        yield _no_ticker(late)
    for row in late if ticker is not None else []:
        what = f"a ticker runs ({ticker}), but {_waits(row)}"
        yield Finding("fail", "ticker", what, "see the ticker's log for the error of this queue")
    if late:
        return
    if ticker is not None:
        yield Finding("ok", "ticker", f"a ticker runs ({ticker}), {which} is ticked in time")
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
    if is_ahead(row["ticker_lag"]):
        return True  # a ticker that runs would have ticked at once
    allowed = row["max_lag"] if row["ev_new"] else 2 * row["idle_period"] + row["max_lag"]
    return bool(row["ticker_lag"] > allowed + TICK_SLACK)


def _waits(row: Row) -> str:
    if row["ticker_lag"] is None:
        return f"queue {row['queue_name']} was never ticked"
    if row["untouched"] and not row["ev_new"]:
        return f"queue {row['queue_name']} was never ticked since it was made"
    waiting = f", {row['ev_new']} event(s) wait" if row["ev_new"] else ""
    lag: timedelta = row["ticker_lag"]
    how = in_future(lag) if is_ahead(lag) else f"is {duration(lag)} old"
    return f"the last tick of queue {row['queue_name']} {how}{waiting}"


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
            remedy = f"{command('queue', 'set', queue)} ticker_paused=false"
            what = f"queue {queue} is paused: its events are not delivered"
            yield Finding("warn", "paused", what, remedy)
        if row["insert_disabled"]:
            remedy = f"{command('queue', 'set', queue)} disable_insert=false"
            yield Finding("warn", "paused", f"inserting into queue {queue} is disabled", remedy)


# A rotation that waits for events to get as old as the retention is in time. PGQ's extension has no
# such column.
ROTATION = """
    select queue_name, now() - queue_switch_time - period as overdue, period,
        array(
            select distinct coalesce(
                   'server process ' || l.pid, 'a prepared transaction (pg_prepared_xacts)')
              from pg_locks l join pg_class c on c.oid = l.relation
             where (c.relname ~ '^truncation_[0-9]+$' or c.relname = format('event_%s_%s',
                       queue_id, (queue_cur_table + 1) % queue_ntables))
               and c.relnamespace = 'pgq'::regnamespace and l.granted
               and l.database = (select oid from pg_database where datname = current_database())
             order by 1) as holders
    from pgq.queue q cross join lateral greatest(
        queue_rotation_period, (to_jsonb(q) ->> 'queue_retention')::interval) period
    where not queue_external_ticker order by 1
"""


def judge_rotation(rows: list[Row]) -> Iterator[Finding]:
    """Report rotations that are overdue: a failure from a whole period on.

    If the last one lies in the future, the clock was ahead then: the next one is due at once.
    """
    for row in rows:
        passed = row["overdue"] + row["period"]
        if is_ahead(passed) or row["overdue"] > ROTATION_SLACK:
            level: Literal["fail", "warn"] = "fail" if row["overdue"] > row["period"] else "warn"
            what = f"queue {row['queue_name']} should have rotated {duration(row['overdue'])} ago"
            if is_ahead(passed):
                last = f"its last rotation {in_future(passed)}"
                what = f"queue {row['queue_name']} should have rotated: {last}"
            if row["holders"]:
                what += f"; the table to truncate is used by {', '.join(row['holders'][:5])}"
            remedy = (
                "run pgqpy ticker run, whose log names errors; slow consumers, stages, long and "
                "prepared transactions delay a rotation"
            )
            yield Finding(level, "rotation", what, remedy)


RETENTION = """
    select q.queue_name, q.queue_retention as retention, pg_size_pretty(m.total_bytes) as size
    from pgq.queue q cross join lateral pgq.get_queue_metrics(q.queue_name) m
    where q.queue_retention is not null order by 1
"""


def judge_retention(rows: list[Row]) -> Iterator[Finding]:
    """Tell how much a retention keeps."""
    for row in rows:
        queue, size = row["queue_name"], row["size"] or "an unknown size"
        what = f"queue {queue} keeps its events for {duration(row['retention'])}: {size}"
        yield Finding(
            "ok", "retention", what, f"{command('queue', 'set', queue)} retention=… changes that"
        )


STAGES = """
    select q.queue_name, s.stage_writer as writer, count(*) as stages,
        now() - min(s.stage_time) as waited,
        format('select pgq.drop_stage(%L, %L)', q.queue_name, s.stage_writer) as drop
    from pgq.stage s join pgq.queue q on q.queue_id = s.stage_queue
    where s.stage_released_by is null group by 1, 2 order by 1, 2
"""


def judge_stages(rows: list[Row]) -> Iterator[Finding]:
    """Report old uncommitted stages. Rotation waits for them until maint_stages drops them."""
    for row in rows:
        if row["waited"] > STAGE_SLACK:
            what = (
                f"{row['stages']} stage(s) of {row['writer']!r} wait to be committed, the oldest "
                f"for {duration(row['waited'])}: they keep tables of queue {row['queue_name']}"
            )
            yield Finding("warn", "stage", what, f"commit them, or: {row['drop']}")


DELAYED = "select * from pgq.get_delayed_counts()"


def judge_delayed(rows: list[Row]) -> Iterator[Finding]:
    """Report queues whose delayed events are long due."""
    for row in rows:
        if row["overdue"] is not None and row["overdue"] > DELAY_SLACK:
            queue = row["queue_name"]
            what = (
                f"nobody moves the delayed events of queue {queue} into it: the first one has been "
                f"due for {duration(row['overdue'])}"
            )
            remedy = (
                f"pgqpy ticker run moves them; its log says why one fails; "
                f"{command('event', 'list', queue, 'delayed')} lists them"
            )
            yield Finding("fail", "delayed", what, remedy)


CAPTURES = "select * from pgq.get_captures()"


def judge_captures(rows: list[Row]) -> Iterator[Finding]:
    """Report captured tables whose changes bring no event, or fail."""
    for row in rows:
        add = command("capture", "add", row["table_id"], "--queue", row["queue_name"])
        for problem in row["problems"]:
            what = f"table {row['table_name']}, captured by {row['queue_name']}: {problem}"
            remedy = f"correct that; {add} makes the triggers anew; then take a new snapshot"
            yield Finding("warn", "capture", what, remedy)
    if rows and not any(row["problems"] for row in rows):
        tables = noun(len(rows), "captured table")
        yield Finding("ok", "capture", f"{len(rows)} {tables}, nothing is wrong")


ENTRIES = """
    select cron_name, queue_name, schedule, timezone, read_at - paused_since as paused,
        read_at, next_due, planned_at, read_at - planned_at as unplanned
    from pgq.get_cron_info()
"""


def judge_entries(rows: list[Row]) -> Iterator[Finding]:
    """Report entries that nobody can read, that are late, or that are paused for long."""
    found = [finding for row in rows for finding in _judge_entry(row)]
    yield from found
    if rows and not found:
        planned = noun(len(rows), "cron entry is", "cron entries are")
        yield Finding("ok", "cron", f"{len(rows)} {planned} planned, and none is late")


def _judge_entry(row: Row) -> Iterator[Finding]:
    entry = f"cron entry {row['cron_name']} of queue {row['queue_name']}"
    if row["paused"] is not None:
        if row["paused"] > CRON_PAUSED:
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
    if row["next_due"] is None and row["unplanned"] > CRON_SLACK:
        what = f"{entry} has not been planned by a ticker for {duration(row['unplanned'])}"
        yield Finding("fail", "cron", what, remedy)
    elif row["next_due"] is not None:
        due = should_fire(row["schedule"], row["timezone"], row["next_due"], row["planned_at"])
        if (late := row["read_at"] - due) <= CRON_SLACK:
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
