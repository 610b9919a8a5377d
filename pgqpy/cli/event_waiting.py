"""Dead, retrying, parked and delayed events: listed, shown, retried, deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import click
from psycopg.rows import dict_row

from pgqpy import calls
from pgqpy.cli import complete, queries
from pgqpy.cli.options import Target, connected, json_option, parse_moment, to_time
from pgqpy.cli.output import say, show_row, show_rows
from pgqpy.texts import escaped

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pgqpy import Client
    from pgqpy.calls.dead_events import Filters

    Command = TypeVar("Command", bound=Callable[..., Any])
    Change = Callable[..., list[int]]

STATES = ("retrying", "parked")
BURIED = "pgqpy event delete"  # the reason of the dead event
CHUNK = 10_000  # dead events that one transaction retries or deletes
PROGRESS_INTERVAL = 2.0  # seconds
CONTENTS = {"type": "ev_type", "data": "ev_data"}
EVENT = {"inserted": "ev_time", **CONTENTS}
DEAD = {
    "event": "ev_id",
    "died": "dead_time",
    "tries": "dead_tries",
    "error": "dead_error",
    "reason": "dead_reason",
    **CONTENTS,
}
GROUPS = {
    "type": "ev_type",
    "error": "dead_error",
    "events": "dead_events",
    "last died": "last_dead_time",
}
RETRYING = {"event": "ev_id", "due": "due", "retries": "ev_retry", **EVENT}
PARKED = {"key": "key", **RETRYING}
KEPT = {"event": "ev_id", "kept": "kept_at", **EVENT}
DELAYED = {"due": "ev_deliver_at", "id": "ev_id", **EVENT}
# Events of the retry queue, and delayed ones, by their ids, or the first ones that are due.
WAITING = """
    with of_it as (
        select s.sub_id, q.queue_id
        from pgq.queue q
            join pgq.registration s on s.sub_queue = q.queue_id
            join pgq.consumer c on c.co_id = s.sub_consumer
        where q.queue_name = %(queue)s and c.co_name = %(consumer)s)
    select state, null as key, due, ev_retry, ev_id, ev_time, ev_type, ev_data,
        ev_extra1, ev_extra2, ev_extra3, ev_extra4
    from (
        select 'retrying' as state, ev_id, ev_retry_after as due, ev_retry, ev_time, ev_type,
            ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
        from pgq.retry_queue where ev_owner = (select sub_id from of_it)
        union all
        select 'delayed', ev_id, ev_deliver_at, ev_retry, ev_time, ev_type, ev_data,
            ev_extra1, ev_extra2, ev_extra3, ev_extra4
        from pgq.delayed_event where ev_queue = (select queue_id from of_it)) waiting
    where (%(state)s::text is null or state = %(state)s)
        and (%(ids)s::bigint[] is null or ev_id = any (%(ids)s))
    order by due, ev_id limit %(limit)s
"""


def show_list(
    client: Client, state: str, queue: str, consumer: str, limit: int, options: dict[str, Any]
) -> None:
    """List the events of a state. `options` are those of ``event list``."""
    as_json = options["as_json"]
    if consumer:
        queries.consumer_info(client, queue, consumer)
    if state == "dead" and options["group"]:
        wanted = _filters(queries.server_time(client), options, limit)
        counts = client.call(calls.dead_events.get_dead_event_counts(queue, consumer, **wanted))
        show_rows([found._asdict() for found in counts], GROUPS, as_json=as_json)
        return
    rows, columns, more = _listed(client, state, queue, consumer, limit + 1, options)
    show_rows(rows[:limit], columns, as_json=as_json)
    if len(rows) > limit:
        say(f"only the {more}")


def _listed(
    client: Client, state: str, queue: str, consumer: str, limit: int, options: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, str], str]:
    """Return the rows, the columns, and what to say if there are more."""
    first = f"first {limit - 1}: --limit shows more"
    if state == "dead":
        wanted = _filters(queries.server_time(client), options, limit)
        dead = client.get_dead_events(queue, consumer, **wanted)
        newest = f"newest {limit - 1}: --limit shows more, --group counts all"
        return [each._asdict() for each in dead], DEAD, newest
    if state == "delayed":
        delayed = client.get_delayed_events(queue, limit=limit)
        return [each._asdict() for each in delayed], DELAYED, first
    if state == "kept":
        kept = client.call(calls.sharing.get_kept_events(queue, consumer, limit=limit, after=None))
        return [each._asdict() for each in kept], KEPT, first
    columns = PARKED if state == "parked" else RETRYING
    return find_waiting(client, queue, consumer, state=state, limit=limit), columns, first


def find_waiting(
    client: Client,
    queue: str,
    consumer: str,
    *,
    ids: tuple[int, ...] | None = None,
    state: str | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Return retrying, parked and delayed events. Needs the role pgq_reader."""
    wanted = {"queue": queue, "consumer": consumer, "state": state, "limit": limit}
    with client.connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute(WAITING, {**wanted, "ids": ids and list(ids)}).fetchall()
    if queries.registration(client, queue, consumer).mode == "shared":
        call = calls.sharing.get_waiting_events(queue, consumer, state=state, ids=ids, limit=limit)
        found += [each._asdict() for each in client.call(call)]
    return found[:limit]


def addressed(command: Command) -> Command:
    """Add QUEUE and CONSUMER."""
    for name, completion in (("consumer", complete.consumers), ("queue", complete.queues)):
        command = click.argument(name, shell_complete=completion)(command)
    return command


@click.command()
@addressed
@click.argument("event_id", type=int)
@json_option
@connected
def show(target: Target, queue: str, consumer: str, event_id: int, *, as_json: bool) -> None:
    """Show a dead, retrying, parked or delayed event, with its data; of a dead one, the traceback.

    Example: pgqpy event show orders billing 1042
    """
    with target.client() as client:
        queries.consumer_info(client, queue, consumer)
        dead = client.get_dead_events(queue, consumer, [event_id])
        rows = [{"state": "dead", **each._asdict()} for each in dead]
        rows += find_waiting(client, queue, consumer, ids=(event_id,))
    if not rows:
        text = f"event {event_id} is neither dead nor waits for consumer {consumer} of {queue}"
        raise click.ClickException(f"{text}: pgqpy event list QUEUE STATE CONSUMER lists those")
    row = rows[0]
    traceback = None if as_json else row.pop("dead_traceback", None)
    show_row(row, as_json=as_json)
    if traceback is not None:
        click.echo(escaped(traceback, "\n"))


def change_command(
    name: str, dead_events: str, waiting: Callable[..., int], help: str
) -> click.Command:
    """Return the command that retries or deletes events; `dead_events` is the client's method."""

    @addressed
    @click.argument("event_ids", nargs=-1, type=int)
    @click.option("--all", "everything", is_flag=True, help="All dead events of this consumer.")
    @click.option("--type", metavar="TYPE", help="Dead events of this type; '': of none.")
    @click.option("--error", metavar="CLASS", help="Died of this exception; '': of none.")
    @click.option(
        "--since", metavar="TIME", callback=parse_moment, help="Died then or later, as --until."
    )
    @click.option(
        "--until",
        metavar="TIME",
        callback=parse_moment,
        help="Died before this time: 2026-01-31T14:00, or 2h for 2 hours ago.",
    )
    @click.option("--limit", type=click.IntRange(min=1), help="At most this many, the oldest.")
    @connected
    def run(
        target: Target,
        queue: str,
        consumer: str,
        event_ids: tuple[int, ...],
        *,
        everything: bool,
        limit: int | None,
        **wanted: Any,
    ) -> None:
        filtered = any(value is not None for value in wanted.values())
        if [bool(event_ids), filtered, everything].count(True) != 1:
            text = "name event ids, or filters such as --type, or --all for all of them"
            raise click.UsageError(text)
        if event_ids and limit is not None:
            raise click.UsageError("--limit is for filters and --all")
        with target.client() as client:
            queries.consumer_info(client, queue, consumer)
            change: Change = getattr(client, dead_events)
            if event_ids:
                dead = change(queue, consumer, event_ids)
                others = tuple({*event_ids} - {*dead})
                click.echo(len(dead) + (waiting(client, queue, consumer, others) if others else 0))
                return
            now = queries.server_time(client)
            filters = _filters(now, wanted)
            # Not those that die meanwhile: a retried event may be dead again at once.
            filters["until"] = min(now, filters.get("until") or now)
            click.echo(_in_transactions(change, name, queue, consumer, limit, filters))

    return click.command(name, help=help)(run)


def _filters(now: datetime, wanted: dict[str, Any], limit: int | None = None) -> Filters:
    since, until = (to_time(wanted[name], now) for name in ("since", "until"))
    type_, error = wanted["type"], wanted["error"]
    return {"type": type_, "error": error, "since": since, "until": until, "limit": limit}


def _in_transactions(
    change: Change, name: str, queue: str, consumer: str, limit: int | None, filters: Filters
) -> int:
    """Retry or delete dead events, in transactions of CHUNK events; return their number."""
    done = {"retry": "retried", "delete": "deleted"}[name]
    count, after, said = 0, None, time.monotonic()
    try:
        while limit is None or count < limit:
            wanted = CHUNK if limit is None else min(CHUNK, limit - count)
            ids = change(queue, consumer, after=after, **{**filters, "limit": wanted})
            count += len(ids)
            if len(ids) < wanted:
                break
            after = ids[-1]
            if time.monotonic() - said >= PROGRESS_INTERVAL:
                say(f"{done} {count} dead event(s) so far")
                said = time.monotonic()
    except BaseException:
        if count:
            say(f"{done} {count} dead event(s) before it ended")
        raise
    return count


def _retry_now(client: Client, queue: str, consumer: str, ids: tuple[int, ...]) -> int:
    """Make retrying and parked events of a shared consumer due now.

    Events that wait behind a parked one follow it.
    """
    found = find_waiting(client, queue, consumer, ids=ids)
    is_shared = queries.registration(client, queue, consumer).mode == "shared"
    states = STATES if is_shared else ()
    waiting = {row["ev_id"] for row in found if row["state"] in states and row["due"] is not None}
    now = queries.server_time(client)
    set_due = (calls.sharing.set_due(queue, consumer, each, now) for each in sorted(waiting))
    count = sum(map(client.call, set_due))
    _tell_others(ids, found, states)
    return count


def _delete_waiting(client: Client, queue: str, consumer: str, ids: tuple[int, ...]) -> int:
    """Hide retrying events from a plain consumer; make those of a shared one dead; delete kept."""
    kept = [each for each in ids if _is_kept(client, queue, consumer, each)]
    if kept:
        ids = tuple({*ids} - {*kept})
        count = client.call(calls.sharing.delete_kept_events(queue, consumer, kept))
        return count + (_delete_waiting(client, queue, consumer, ids) if ids else 0)
    found = find_waiting(client, queue, consumer, ids=ids)
    waiting = [row["ev_id"] for row in found if row["state"] in STATES]
    _tell_others(ids, found, STATES)
    if queries.registration(client, queue, consumer).mode == "shared":
        bury = (calls.sharing.bury_event(queue, consumer, each, BURIED) for each in waiting)
        if count := sum(map(client.call, bury)):
            say(f"{count} event(s) in flight are dead events now: delete them again, or retry them")
        return count
    told = client.skip_event(queue, consumer, waiting) if waiting else []
    return sum(each.state == "cancelled" for each in told)


def _is_kept(client: Client, queue: str, consumer: str, event_id: int) -> bool:
    call = calls.sharing.get_kept_events(queue, consumer, limit=1, after=event_id - 1)
    return any(each.ev_id == event_id for each in client.call(call))


def _tell_others(
    ids: tuple[int, ...], found: list[dict[str, Any]], states: tuple[str, ...]
) -> None:
    """Say which events are in none of these states."""
    known = {row["ev_id"]: row["state"] for row in found}
    for event_id in sorted(ids):
        if known.get(event_id) not in states:
            say(
                f"event {event_id} is {known.get(event_id, 'neither waiting nor dead')}: left alone"
            )


retry = change_command(
    "retry",
    "revive_dead_events",
    _retry_now,
    """Retry dead events of a consumer, or delayed ones of a shared one; print their number.

    Name event ids, or filters, or --all for dead events. Dead events go to the retry queue, many of
    them in transactions of 10,000. An event of a shared consumer that failed is due now.

    Example: pgqpy event retry orders billing 1042 1043
    """,
)
delete = change_command(
    "delete",
    "delete_dead_events",
    _delete_waiting,
    """Delete dead, retrying, parked or kept events of a consumer; print their number.

    Name event ids, or filters, or --all for dead events, many of them in transactions of 10,000.
    An event that a shared consumer would get again becomes a dead event, and what waits behind it
    comes next. pgqpy event cancel removes delayed events.

    Example: pgqpy event delete orders billing --error ValueError --until 7d
    """,
)
