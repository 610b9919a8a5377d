"""``pgqpy consumer``: register, inspect and run consumers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from pgqpy.cli import complete, consumer_details, queries
from pgqpy.cli.consumer_seek import seek
from pgqpy.cli.consumer_set import FILTERS, set_, set_filter
from pgqpy.cli.options import Noun, Target, connected, json_option, on_terminal, split_settings
from pgqpy.cli.output import say, show_row, show_rows

if TYPE_CHECKING:
    from pgqpy import Client
    from pgqpy.records import ConsumerInfo

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


for command in (seek, set_):
    consumer.add_command(command)


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
        has.append(f"{len(row['leases'])} lease(s) or left over range(s) of receivers")
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
    that are known to have died with the batch, and the leases of receivers that had it and ended.

    A lease has messages that a receiver has not finished; its attempt counts the leases before that
    ended. A range that is left over waits for the next receive, as does a lease that has ended.

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
    from pgqpy.cli import consumer_run, consumer_workers

    supervisor = consumer_workers.stop_with_supervisor() if supervised else None
    parsed = consumer_run.parse_settings(settings)
    consumer_run.log_to_stderr(log_format, log_level)
    kind = consumer_run.import_class(place)
    consumer = consumer_run.make_consumer(kind, target.dsn, parsed)
    if workers:
        logs = ("--log-format", log_format, "--log-level", log_level)
        metrics = (metrics_host or "127.0.0.1", metrics_port)
        commands = consumer_workers.worker_commands(workers, place, settings, logs, metrics)
        return consumer_workers.supervise(consumer, target, commands)
    if supervisor is not None:
        consumer_workers.accept_arguments(supervisor)
    if metrics_port is None:
        consumer_run.run(consumer)
        return 0
    with consumer_run.serve_metrics(consumer, metrics_host or "127.0.0.1", metrics_port):
        consumer_run.run(consumer)
    return 0
