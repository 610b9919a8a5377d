"""``pgqpy consumer``: register, configure, move, inspect and run consumers."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import click
from psycopg.errors import LockNotAvailable

from pgqpy import calls
from pgqpy.calls import filters
from pgqpy.cli import complete, consumer_details, queries
from pgqpy.cli.consumer_details import policy_as_text
from pgqpy.cli.options import (
    Noun,
    Target,
    connected,
    json_option,
    on_terminal,
    parse_moment,
    split_settings,
    to_time,
    to_timedelta,
)
from pgqpy.cli.output import as_text, say, show_row, show_rows
from pgqpy.texts import duration
from pgqpy.tick_ranges import measure

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy import Client
    from pgqpy.cli.options import Moment
    from pgqpy.records import ConsumerInfo
    from pgqpy.tick_ranges import Distance

    Given = dict[str, list[str]]
    Place = Literal["beginning", "end"] | int | Moment
    Goal = Literal["beginning", "end"] | int | datetime


STALE = timedelta(seconds=10)  # since the last tick: new events wait no longer while a ticker runs
LEVELS = ("debug", "info", "warning", "error")
LIST = {
    "queue": "queue_name",
    "consumer": "consumer_name",
    "takes": "filter",
    "lag": "lag",
    "last seen": "last_seen",
    "last tick": "last_tick",
    "batch": "current_batch",
    "pending events": "pending_events",
    "retry": "retry_events",
    "dead": "dead_events",
    "parked": "parked_events",
    "runs": "runs",
}
LEFT = {
    "pending_events": "pending event(s)",
    "retry_events": "event(s) in the retry queue",
    "dead_events": "dead event(s)",
    "parked_events": "parked event(s)",
}


@click.group(cls=Noun)
def consumer() -> None:
    """Register, inspect or run consumers."""


@consumer.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Take only events of this type, or with a prefix such as 'order.*'; may be repeated.",
)
@click.option(
    "--extra",
    "extras",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete.extras,
    help="Take only events with this value, such as extra1=eu; may be repeated.",
)
@connected
def register(
    target: Target, queue: str, name: str, *, types: tuple[str, ...], extras: tuple[str, ...]
) -> None:
    """Register a consumer on a queue. It receives the events inserted from now on.

    With --type or --extra it takes only these. A consumer that is registered already keeps its
    position: pgqpy consumer seek moves it.

    Example: pgqpy consumer register orders billing --type 'order.*' --extra extra1=eu
    """
    values: dict[str, list[str]] = {"type": [*types]} if types else {}
    for key, value in split_settings(extras, "--extra extra1=eu"):
        if key not in FILTERS[1:]:
            raise click.UsageError(f"--extra {key}=…: there are {', '.join(FILTERS[1:])}")
        values.setdefault(key, []).append(value)
    with target.client() as client, client.transaction():
        new = client.register_consumer(queue, name)
        filtered = f": {set_filter(client, queue, name, values)}" if values else ""
    say(f"registered {name} on {queue}{'' if new else ' already'}{filtered}")


@consumer.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.option("--force", is_flag=True, help="Do not ask, even if events are lost.")
@connected
def unregister(target: Target, queue: str, name: str, *, force: bool) -> None:
    """Unregister a consumer: delete its position, its retry, dead and parked events.

    If events are left or the consumer runs, a terminal asks; elsewhere --force is required.

    Example: pgqpy consumer unregister orders billing
    """
    with target.client() as client:
        info = queries.consumer_info(client, queue, name)
        if not force:
            _ask_to_unregister(client, info)
        client.unregister_consumer(queue, name)
    say(f"unregistered {name} from {queue}")


def _ask_to_unregister(client: Client, info: ConsumerInfo) -> None:
    (row,) = consumer_details.with_details(client, [info])
    has = [f"{row[field]} {what}" for field, what in LEFT.items() if row[field]]
    has += _new_events(client, info.queue_name)
    if info.current_batch is not None:
        has.append("an open batch")
    open_batches = sum(worker["batch"] is not None for worker in row["workers"])
    if open_batches:
        whose = "lanes" if row["mode"] == "lanes" else "workers"
        has.append(f"{open_batches} open batch(es) of {whose}")
    if row["leases"]:
        has.append(f"{len(row['leases'])} lease(s) of receivers")
    if running := consumer_details.running(row):
        has.append(f"a session that runs it ({running})")
    if not has:
        return
    loss = f"consumer {info.consumer_name} of queue {info.queue_name} has {', '.join(has)}"
    if not on_terminal():
        raise click.ClickException(f"{loss}; add --force to unregister it and lose these events")
    if not click.confirm(f"The {loss}. Unregister it and lose these events?", err=True):
        raise click.ClickException("nothing was unregistered")


def _new_events(client: Client, queue: str) -> list[str]:
    """Tell of events that no tick has reached, where nobody seems to tick the queue."""
    (info,) = client.get_queue_info(queue)
    if not info.ev_new or info.ticker_lag is None or info.ticker_lag < STALE:
        return []
    return [f"about {info.ev_new} event(s) that no tick has reached"]


@consumer.command("list")
@click.argument("queue", required=False, shell_complete=complete.queues)
@json_option
@connected
def list_(target: Target, queue: str | None, *, as_json: bool) -> None:
    """List the consumers of one queue, or of all queues.

    retry and dead count events in the retry queue and dead events. runs shows the session of a
    running Consumer, or how many workers run; it is no for a program that calls the SQL functions
    directly: see last seen. takes is the filter of a consumer that takes only some events. lag is
    the age of the last finished tick, 0 while no event is pending. A consumer with lanes is where
    its slowest lane is.

    Example: pgqpy consumer list orders
    """
    with target.client() as client:
        if queue is not None:
            queries.queue_info(client, queue)  # raises QueueNotFound
        rows = consumer_details.with_details(client, queries.consumers(client, queue))
    show_rows(rows if as_json else map(consumer_details.as_text, rows), LIST, as_json=as_json)


@consumer.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@json_option
@connected
def show(target: Target, queue: str, name: str, *, as_json: bool) -> None:
    """Show one consumer: position, open batch, filter, retry queue, policy, workers, lanes.

    Of each worker: its batch, since when it has finished nothing of it, which attempt it is, its
    last heartbeat, and its session. Another worker may take the batch over when the session has
    ended, or the lease, or after dead_interval without a heartbeat. attempt counts the processes
    that are known to have died with the batch.

    A lease has messages that a receiver has claimed; one that has ended waits for the next receive.

    A lane without a batch tells the tick that it is at, and the lag; one with a batch tells what a
    worker does. runs counts the workers whose session runs the consumer.

    stall_policy says what happens when rotation waits for the consumer: policy in pgqpy consumer
    set. detached: since when it gets no events any more.

    Example: pgqpy consumer show orders billing
    """
    with target.client() as client:
        info = queries.consumer_info(client, queue, name)
        (row,) = consumer_details.with_details(client, [info])
        row |= consumer_details.policy_details(client, queue, name)
    show_row(row if as_json else consumer_details.as_text(row), as_json=as_json)


@consumer.command()
@click.argument("place", metavar="MODULE:CLASS")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete.consumer_settings,
    help="A setting; may be repeated.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1000),
    help="Start so many processes and restart those that end; several need lanes or shared.",
)
@click.option("--supervised", is_flag=True, hidden=True)  # of a process that --workers started
@click.option("--metrics-host", help="Address of /metrics and /healthz.  [default: 127.0.0.1]")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Port of both; of --workers, the first one.  [default: none]",
)
@click.option("--log-format", type=click.Choice(["console", "json"]), default="console")
@click.option("--log-level", type=click.Choice([*LEVELS]), default="info")
@connected
def run(
    target: Target,
    place: str,
    *,
    settings: tuple[str, ...],
    log_format: str,
    log_level: str,
    workers: int | None,
    supervised: bool,
    metrics_host: str | None,
    metrics_port: int | None,
) -> int:
    """Run a Consumer class until SIGTERM, SIGHUP or Ctrl-C. The current event is finished first.

    The module may be in the working directory. --set overrides the settings of the class. With
    --workers, a process that ends is started again: after 0.5 s, and later and later if it does so
    again and again.

    The exit code is 1 if an exception of the handler ended the run, or if the handler took longer
    than handler_timeout: start it again then.

    Example: pgqpy consumer run billing:Billing --set part_size=100
    """
    from pgqpy.cli import consumer_run

    supervisor = consumer_run.stop_with_supervisor() if supervised else None
    parsed = consumer_run.parse_settings(settings)
    consumer_run.log_to_stderr(log_format, log_level)
    kind = consumer_run.import_class(place)
    consumer = consumer_run.make_consumer(kind, target.dsn, parsed)
    if workers:
        logs = ("--log-format", log_format, "--log-level", log_level)
        metrics = (metrics_host or "127.0.0.1", metrics_port)
        commands = consumer_run.worker_commands(workers, place, settings, logs, metrics)
        return consumer_run.supervise(consumer, target, commands)
    if supervisor is not None:
        consumer_run.accept_arguments(supervisor)
    if metrics_port is None:
        consumer_run.run(consumer)
        return 0
    with consumer_run.serve_metrics(consumer, metrics_host or "127.0.0.1", metrics_port):
        consumer_run.run(consumer)
    return 0


UNITS = {"": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
SIZE = re.compile(r"(\d{1,6}(?:\.\d+)?|\d+) ?(|kB|MB|GB|TB)", re.ASCII)
LARGEST = 1 << 62  # bytes


def parse_size(value: str | None) -> int | None:
    """Return a number of bytes."""
    if value is None:
        return None
    found = SIZE.fullmatch(value.strip())
    size = float(found[1]) * UNITS[found[2]] if found else LARGEST
    if size < LARGEST:
        return int(size)
    raise click.UsageError(f"{value!r} is no size: write 500MB, 20GB, 1.5TB")


@consumer.command("set")
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.argument(
    "settings",
    nargs=-1,
    required=True,
    metavar="NAME=VALUE...",
    shell_complete=complete.registration,
)
@connected
def set_(target: Target, queue: str, name: str, settings: tuple[str, ...]) -> None:
    """Change what is stored of a consumer, all in one transaction.

    \b
    mode=plain|shared    one process runs it, or several workers
    lanes=8 key=extra1   workers share it, in order of the key
    type=… extra1=…      which events it takes; repeat for more, type=* takes all
    policy=warn|detach   what happens when rotation waits for it
    after=2d size=50GB   the limits of the policy: what comes first counts
    attached=yes         a detached consumer goes on where it was; attached=earliest:
                         from the earliest tick left, if events are gone

    The first run of a consumer decides its mode by itself. Another mode needs that no process runs
    it and no batch is open. One with several lanes is changed to lanes=1 first, and run until that
    is done. Lanes may be changed while it runs: the present lanes end at a tick, new ones begin.

    A detached consumer gets no events, and events that it has not had are removed; its retried,
    dead and parked events stay. Only time in which a ticker ran counts for policy=detach.

    Example: pgqpy consumer set orders billing lanes=8 key=extra1
    """  # noqa: D301  # click's mark of lines that stay as they are
    given: Given = {}
    for setting, value in split_settings(settings, "mode=shared"):
        given.setdefault(setting, []).append(value)
    _check(given)
    with target.client() as client:
        queries.consumer_info(client, queue, name)
        with client.transaction():
            done = [
                change(client, queue, name, given)
                for settings_of_it, change in CHANGES
                if given.keys() & set(settings_of_it)
            ]
    say(f"{name} on {queue}: {'; '.join(done)}")


def _check(given: Given) -> None:
    """Refuse unknown settings, those that are given twice, and those that need another one."""
    for setting, values in given.items():
        if setting not in complete.REGISTRATION:
            known = ", ".join(complete.REGISTRATION)
            raise click.UsageError(f"there is no setting {setting!r}: {known}")
        if len(values) > 1 and setting not in FILTERS:
            raise click.UsageError(f"{setting} is set twice")
        for needed in NEEDS.get(setting, ()):
            if needed not in given:
                raise click.UsageError(f"{setting} needs {needed}=…")
        _check_choice(setting, values[0])
    if given.get("policy") == ["detach"] and not given.keys() & {"after", "size"}:
        raise click.UsageError("policy=detach needs after=… or size=…")


def _check_choice(setting: str, value: str) -> None:
    choices = CHOICES.get(setting)
    if choices is not None and value not in choices:
        raise click.UsageError(f"{setting} is one of {', '.join(choices)}, not {value!r}")


def _set_mode(client: Client, queue: str, name: str, given: Given) -> str:
    (mode,) = given["mode"]
    changed = client.call(calls.share.set_consumer_mode(queue, name, mode))  # type: ignore[arg-type]  # as CHOICES
    return mode if changed else f"{mode} already"


def _set_lanes(client: Client, queue: str, name: str, given: Given) -> str:
    (lanes,), (key,) = given["lanes"], given["key"]
    number = click.INT(lanes)
    changed = client.call(calls.lanes.set_lanes(queue, name, number, key))
    return f"{number} lane(s) by {key}{'' if changed else ' already'}"


def set_filter(client: Client, queue: str, name: str, given: Given) -> str:
    """Change the filter, if `given` has conditions."""
    types = given.get("type")
    extras = {each: given[each] for each in FILTERS[1:] if each in given}
    changed = client.set_consumer_filter(queue, name, types=types, extras=extras)
    what = f"takes {filters.describe_filter(types, extras)}"
    return what if changed else f"{what} already"


def _set_policy(client: Client, queue: str, name: str, given: Given) -> str:
    (policy,) = given["policy"]
    after = to_timedelta(*given.get("after", [None]))
    size = parse_size(*given.get("size", [None]))
    call = calls.admin.set_stall_policy(queue, name, policy, after=after, size=size)  # type: ignore[arg-type]  # as CHOICES
    changed = client.call(call)
    return f"{policy_as_text(policy, after, size)}{'' if changed else ' already'}"


def _attach(client: Client, queue: str, name: str, given: Given) -> str:
    earliest = given["attached"] == ["earliest"]
    call = calls.admin.reattach_consumer(queue, name, from_earliest=earliest)
    if not client.call(call):
        return "attached already"
    pending = queries.consumer_info(client, queue, name).pending_events
    return f"attached again: about {pending} event(s) wait"


FILTERS = ("type", "extra1", "extra2", "extra3", "extra4")
NEEDS = {"lanes": ("key",), "key": ("lanes",), "after": ("policy",), "size": ("policy",)}
CHOICES = {
    "mode": ("plain", "shared"),
    "key": FILTERS,
    "policy": ("warn", "detach"),
    "attached": ("yes", "earliest"),
}
CHANGES = (  # in this order; each with the settings that it takes
    (("mode",), _set_mode),
    (("lanes", "key"), _set_lanes),
    (FILTERS, set_filter),
    (("policy", "after", "size"), _set_policy),
    (("attached",), _attach),
)


ENDS: dict[str, Literal["beginning", "end"]] = {"beginning": "beginning", "end": "end"}


def parse_place(ctx: click.Context, param: click.Parameter, value: str) -> Place | None:
    """Return beginning or end; a tick, if there are only digits; else a time."""
    if value in ENDS:
        return ENDS[value]
    if value.isascii() and value.isdecimal():
        return int(value)
    try:
        return parse_moment(ctx, param, value)
    except click.BadParameter as exc:
        text = f"{exc.message}; or beginning, end, or the number of a tick"
        raise click.BadParameter(text) from None


def _find_skipped(client: Client, info: ConsumerInfo, place: Goal) -> Distance | None:
    """Return the range that the seek skips; None if no events are in it."""
    queue = info.queue_name
    if place == "beginning":
        return None
    if place == "end":
        tick = queries.queue_info(client, queue).last_tick_id
    else:
        tick = (
            place if isinstance(place, int) else client.call(calls.ticks.get_tick_at(queue, place))
        )
    return None if tick is None else measure(client, queue, info.last_tick, tick)


def ask_to_skip(client: Client, info: ConsumerInfo, place: Goal) -> None:
    """Ask first, if a move skips events that the consumer has not finished."""
    queue, name = info[:2]
    found = _find_skipped(client, info, place)
    if found is None:
        return
    skips = (
        f"skips about {found.events} event(s) that consumer {name} of queue {queue} has not "
        f"finished: ticks {found.from_tick} to {found.to_tick}"
    )
    if found.to_time is not None and found.length is not None:
        skips += f", {duration(found.length)} up to {as_text(found.to_time)}"
    if not on_terminal():
        raise click.ClickException(f"this {skips}; add --yes to skip them")
    if not click.confirm(f"This {skips}. Skip them?", err=True):
        raise click.ClickException("the consumer was not moved")


@consumer.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.argument("place", callback=parse_place)
@click.option("--discard", is_flag=True, help="Drop all its retried and parked events.")
@click.option("--yes", is_flag=True, help="Do not ask, even if events are skipped.")
@connected
def seek(target: Target, queue: str, name: str, place: Place, *, discard: bool, yes: bool) -> None:
    """Move a consumer to PLACE: events come again, or are skipped.

    PLACE is beginning, end, a time such as 2026-01-31T14:00, how long ago, such as 2h, or a number:
    that of a tick. From a time on, every event comes that was committed then or later, and some
    from shortly before. pgqpy queue show names the earliest place.

    A running consumer goes on there by itself. Events that come again have the same ids. Those of
    them that wait in the retry queue, or are parked, are dropped there, since they come anyway.
    --discard drops all that waits or is parked.

    If events are skipped that the consumer has not finished, a terminal asks; elsewhere --yes is
    required.

    Example: pgqpy consumer seek orders billing 2h
    """
    with target.client() as client:
        info = queries.consumer_info(client, queue, name)
        if not isinstance(place, (str, int)):
            place = to_time(place, queries.server_time(client))
        if not yes:
            ask_to_skip(client, info, place)
        try:
            found = client.seek_consumer(queue, name, place, discard=discard)
        except LockNotAvailable as exc:
            text = f"a transaction is at work for consumer {name} of queue {queue}: try it again"
            raise click.ClickException(text) from exc
        before = info.pending_events
        after = queries.consumer_info(client, queue, name).pending_events
    message = f"moved {name} on {queue} to tick {found.tick_id} of {as_text(found.tick_time)}"
    if before is not None and after is not None and before != after:
        does = "come again" if after > before else "are skipped"
        message += f": about {abs(after - before)} event(s) {does}"
    if found.dropped:
        message += f"; dropped {found.dropped} that waited or were parked"
    say(message)
