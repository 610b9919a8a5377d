"""``pgqpy consumer``: register, configure, move, inspect and run consumers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import click
from psycopg.errors import LockNotAvailable

from pgqpy import calls
from pgqpy.calls import filters
from pgqpy.cli import complete, consumer_details, queries
from pgqpy.cli.complete import CONDITIONS, SHARING
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
    from collections.abc import Callable
    from datetime import datetime

    from pgqpy import Client
    from pgqpy.calls.inflight import Key
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
    "mode": "mode",
    "takes": "filter",
    "lag": "lag",
    "last seen": "last_seen",
    "last tick": "last_tick",
    "batch": "current_batch",
    "pending events": "pending_events",
    "in flight": "in_flight",
    "retry": "retry_events",
    "dead": "dead_events",
    "runs": "runs",
}
LEFT = {
    "pending_events": "pending event(s)",
    "in_flight": "event(s) in flight",
    "retry_events": "event(s) in the retry queue",
    "dead_events": "dead event(s)",
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
@click.option("--shared", is_flag=True, help="Any number of processes may run it, not one.")
@click.option(
    "--key",
    type=click.Choice(CONDITIONS),
    help="With --shared: events that are alike here come one after the other.",
)
@connected
def register(
    target: Target,
    queue: str,
    name: str,
    *,
    types: tuple[str, ...],
    extras: tuple[str, ...],
    shared: bool,
    key: Key | None,
) -> None:
    """Register a consumer on a queue. It receives the events inserted from now on.

    With --type or --extra it takes only these. A consumer that is registered already keeps its
    position: pgqpy consumer seek moves it. pgqpy consumer set makes it shared, and limits it.

    Example: pgqpy consumer register orders billing --type 'order.*' --shared --key extra1
    """
    if key is not None and not shared:
        raise click.UsageError("--key needs --shared")
    values: dict[str, list[str]] = {"type": [*types]} if types else {}
    for extra, value in split_settings(extras, "--extra extra1=eu"):
        if extra not in CONDITIONS[1:]:
            raise click.UsageError(f"--extra {extra}=…: there are {', '.join(CONDITIONS[1:])}")
        values.setdefault(extra, []).append(value)
    with target.client() as client, client.transaction():
        new = client.register_consumer(queue, name, shared=shared, key=key)
        filtered = f": {set_filter(client, queue, name, values)}" if values else ""
    say(f"registered {name} on {queue}{'' if new else ' already'}{filtered}")


@consumer.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.option("--force", is_flag=True, help="Do not ask, even if events are lost.")
@connected
def unregister(target: Target, queue: str, name: str, *, force: bool) -> None:
    """Unregister a consumer: delete its position, and its events in flight, in retry and dead.

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
    if running := consumer_details.running(row):
        has.append(f"what runs it ({running})")
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

    in flight counts the events in flight of a shared consumer; retry and dead count events in the
    retry queue and dead events. runs shows the session of a running Consumer, or how many
    processes run a shared one; it is no for a program that calls the SQL functions directly: see
    last seen. takes is the filter of a consumer that takes only some events. lag is the age of the
    last finished tick, 0 while no event is pending.

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
    """Show one consumer: position, open batch, filter, retry queue, policy; who shares it.

    Of a shared consumer: its settings; for how long it has not polled for new events; its events in
    flight, fresh, returned, claimed, delayed, waiting behind others of their key, or in pieces that
    are not read yet; the processes that hold claims, and the keys for which most events wait.

    stall_policy says what happens when rotation waits for the consumer: policy in pgqpy consumer
    set. detached: since when it gets no events any more.

    Example: pgqpy consumer show orders billing
    """
    with target.client() as client:
        info = queries.consumer_info(client, queue, name)
        (row,) = consumer_details.with_details(client, [info])
        row |= consumer_details.policy_details(client, queue, name)
        row |= consumer_details.flight_details(client, row)
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
    help="Start so many processes and restart those that end; several need a shared consumer.",
)
@click.option(
    "--no-wait", is_flag=True, help="Fail if another process runs it, in place of standing by."
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
    no_wait: bool,
    supervised: bool,
    metrics_host: str | None,
    metrics_port: int | None,
) -> int:
    """Run a Consumer class until SIGTERM, SIGHUP or Ctrl-C. The current event is finished first.

    While another process runs a consumer that is not shared, this one waits as a standby, and takes
    over when that one ends.

    The module may be in the working directory. --set overrides the settings of the class. With
    --workers, a process that ends is started again: after 0.5 s, and later and later if it does so
    again and again.

    The exit code is 1 if an exception of the handler ended the run, or if the handler took longer
    than handler_timeout: start it again then.

    Example: pgqpy consumer run billing:Billing --set part_size=100
    """
    from pgqpy.cli import consumer_run

    if workers and no_wait:
        raise click.UsageError("--no-wait ends a process, and --workers starts it again")
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
        consumer_run.run(consumer, wait=not no_wait)
        return 0
    with consumer_run.serve_metrics(consumer, metrics_host or "127.0.0.1", metrics_port):
        consumer_run.run(consumer, wait=not no_wait)
    return 0


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
    mode=plain|shared    one process runs it, or any number
    key=extra1           with mode=shared: events that are alike here come in order; none: no order
    per_key=3            of a shared one: so many events of a key at a time
    limit_in_flight=50   of a shared one: so many events at a time; none: no limit
    rate=100/s           of a shared one: so many in a second, a minute (min) or an hour (h); none
    type=… extra1=…      which events it takes; repeat for more, type=* takes all
    policy=warn|detach   what happens when rotation waits for it
    after=2d size=50GB   the limits of the policy: what comes first counts
    attached=yes         a detached consumer goes on where it was; attached=earliest:
                         from the earliest tick left, if events are gone

    Settings that are not named stay. A consumer becomes shared while no process runs it and no
    batch is open, plain while nothing is claimed; its key changes while nothing is in flight.

    A detached consumer gets no events, and rotation removes events that it has not had; its events
    in flight, retried and dead ones stay. Only time in which a ticker ran counts for policy=detach.

    Example: pgqpy consumer set orders billing mode=shared key=extra1
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
        if setting in GONE:
            raise click.UsageError(f"{setting} is gone: {GONE[setting]}")
        if setting not in complete.REGISTRATION:
            known = ", ".join(complete.REGISTRATION)
            raise click.UsageError(f"there is no setting {setting!r}: {known}")
        if len(values) > 1 and setting not in CONDITIONS:
            raise click.UsageError(f"{setting} is set twice")
        if (needed := NEEDS.get(setting)) and needed not in given:
            raise click.UsageError(f"{setting} needs {needed}=…")
        _check_choice(setting, values[0])
    if given.get("policy") == ["detach"] and not given.keys() & {"after", "size"}:
        raise click.UsageError("policy=detach needs after=… or size=…")
    for setting in given.keys() & set(SHARING[1:]) if given.get("mode") == ["plain"] else ():
        raise click.UsageError(f"{setting} is for mode=shared")


def _check_choice(setting: str, value: str) -> None:
    choices = CHOICES.get(setting)
    if choices is not None and value not in choices:
        raise click.UsageError(f"{setting} is one of {', '.join(choices)}, not {value!r}")


def parse_rate(value: str) -> float | None:
    """Return how many events a second; None: there is no limit."""
    from pgqpy.consumers.settings import CHECKS, per_second

    if value == "none":
        return None
    is_right, _ = CHECKS["rate"]
    if not is_right(value):
        raise click.UsageError(f"{value!r} is no rate: write 100/s, 30/min, 5/h, or none")
    return per_second(value)


NEW: dict[str, Any] = {"order_key": None, "per_key": 1, "limit_in_flight": None, "rate": None}
SETTINGS: dict[str, Callable[[str], Any]] = {
    "per_key": click.INT,
    "limit_in_flight": lambda value: None if value == "none" else click.INT(value),
    "rate": parse_rate,
}


def _set_sharing(client: Client, queue: str, name: str, given: Given) -> str:
    """Change mode, key and limits; those of a shared consumer that are not named stay."""
    if given.get("mode") == ["plain"]:
        changed = client.call(calls.sharing.set_consumer_mode(queue, name, "plain"))
        return "plain" if changed else "plain already"
    found = client.call(calls.sharing.get_inflight(queue, name))
    named = {each: parse(*given[each]) for each, parse in SETTINGS.items() if each in given}
    settings = ({each: getattr(found[0], each) for each in NEW} if found else NEW) | named
    key, changed = settings.pop("order_key"), 0
    if "mode" in given:
        (key,) = given.get("key", [key])
        call = calls.sharing.set_consumer_mode(
            queue, name, "shared", None if key == "none" else key, per_key=settings["per_key"]
        )
        changed += client.call(call)
    if named:
        changed += client.call(calls.sharing.set_consumer_limits(queue, name, **settings))
    (after,) = client.call(calls.sharing.get_inflight(queue, name))
    return f"{consumer_details.mode_as_text(after)}{'' if changed else ' already'}"


def set_filter(client: Client, queue: str, name: str, given: Given) -> str:
    """Change the filter, if `given` has conditions."""
    types = given.get("type")
    extras = {each: given[each] for each in CONDITIONS[1:] if each in given}
    changed = client.set_consumer_filter(queue, name, types=types, extras=extras)
    what = f"takes {filters.describe_filter(types, extras)}"
    return what if changed else f"{what} already"


def _set_policy(client: Client, queue: str, name: str, given: Given) -> str:
    (policy,) = given["policy"]
    after = to_timedelta(*given.get("after", [None]))
    ((size,),) = client.connection.execute(SIZE, given.get("size", [None])).fetchall()
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


NEEDS = {"key": "mode", "after": "policy", "size": "policy"}
GONE = {"lanes": "mode=shared key=extra1 keeps the order of a key over any number of processes"}
CHOICES = {
    "mode": ("plain", "shared"),
    "key": (*CONDITIONS, "none"),
    "policy": ("warn", "detach"),
    "attached": ("yes", "earliest"),
}
SIZE = "select pg_size_bytes(%s)"
CHANGES = (  # in this order; each with the settings that it takes
    (SHARING, _set_sharing),
    (CONDITIONS, set_filter),
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
@click.option("--discard", is_flag=True, help="Drop all its events that wait for a retry.")
@click.option("--yes", is_flag=True, help="Do not ask, even if events are skipped.")
@connected
def seek(target: Target, queue: str, name: str, place: Place, *, discard: bool, yes: bool) -> None:
    """Move a consumer to PLACE: events come again, or are skipped.

    PLACE is beginning, end, a time such as 2026-01-31T14:00, how long ago, such as 2h, or a number:
    that of a tick. From a time on, every event comes that was committed then or later, and some
    from shortly before. pgqpy queue show names the earliest place.

    A running consumer goes on there by itself. Events that come again have the same ids. Those of
    them that wait for a retry are dropped there, since they come anyway. --discard drops all that
    waits.

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
        message += f"; dropped {found.dropped} that waited"
    say(message)
