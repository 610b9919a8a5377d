"""``pgqpy event cancel`` and ``event skip``: hide events from consumers."""

from __future__ import annotations

import click

from pgqpy.cli import complete, queries
from pgqpy.cli.options import Target, connected, json_option
from pgqpy.cli.output import show_rows

COLUMNS = {"event": "id", "consumer": "consumer", "state": "state"}


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("event_ids", metavar="ID...", nargs=-1, required=True, type=int)
@json_option
@connected
def cancel(target: Target, queue: str, event_ids: tuple[int, ...], *, as_json: bool) -> None:
    """Hide events from all consumers that have not had them.

    Prints what happened for each consumer: cancelled: it does not get the event; delivered: it has
    had the event, or has it in its open batch; by ticks: it reads ranges of ticks, as Spark does,
    and gets the event; unknown: the queue has no such event for it.

    Example: pgqpy event cancel orders 1042 1043
    """
    with target.client() as client:
        told = client.cancel_event(queue, event_ids)
    show_rows([each._asdict() for each in told], COLUMNS, as_json=as_json)


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("consumer", shell_complete=complete.consumers)
@click.argument("event_ids", metavar="ID...", nargs=-1, required=True, type=int)
@json_option
@connected
def skip(
    target: Target, queue: str, consumer: str, event_ids: tuple[int, ...], *, as_json: bool
) -> None:
    """Hide events from one consumer that has not had them; the others get them.

    Prints what happened, as event cancel.

    Example: pgqpy event skip orders billing 1042
    """
    with target.client() as client:
        queries.consumer_info(client, queue, consumer)
        told = client.skip_event(queue, consumer, event_ids)
    show_rows([each._asdict() for each in told], COLUMNS, as_json=as_json)
