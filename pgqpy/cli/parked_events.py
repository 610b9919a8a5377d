"""``pgqpy event parked``: list, retry and delete events that wait behind a failed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pgqpy import calls
from pgqpy.cli import complete, queries
from pgqpy.cli.options import Target, connected, json_option, limit_option
from pgqpy.cli.output import show_rows

if TYPE_CHECKING:
    from pgqpy import Client

COLUMNS = {
    "key": "park_key",
    "events": "events",
    "parked since": "park_since",
    "due": "park_after",
    "retries": "ev_retry",
    "error": "park_error",
    "reason": "park_reason",
    "event": "ev_id",
    "type": "ev_type",
}


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("consumer", shell_complete=complete.consumers)
@click.argument("keys", nargs=-1)
@click.option("--retry", is_flag=True, help="Retry the failed events now; print their number.")
@click.option("--delete", is_flag=True, help="Delete the failed events; print their number.")
@click.option("--all", "everything", is_flag=True, help="With --retry: those of all keys.")
@limit_option(100, "keys")
@json_option
@connected
def parked(
    target: Target,
    queue: str,
    consumer: str,
    keys: tuple[str, ...],
    *,
    retry: bool,
    delete: bool,
    everything: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the parked keys of a consumer, the one that waits longest first.

    Each line shows the event that failed, and with how many later events of its key it waits
    (on_error = "park"). --retry and --delete act on the failed events of KEYS only: what waits
    behind a deleted event is handled next.

    Example: pgqpy event parked orders accounts --retry customer-17
    """
    if retry and delete:
        raise click.UsageError("--retry and --delete exclude each other")
    if everything and not retry:
        raise click.UsageError("--all is for --retry")
    if (retry or delete) and bool(keys) == everything:
        text = "name keys" + ", or --all for all of them" * retry
        raise click.UsageError(text)
    with target.client() as client:
        queries.consumer_info(client, queue, consumer)
        if retry:
            click.echo(client.call(calls.parked.retry_parked(queue, consumer, keys or None)))
        elif delete:
            click.echo(len(client.call(calls.parked.delete_parked(queue, consumer, keys))))
        else:
            _show(client, queue, consumer, keys, limit, as_json=as_json)


def _show(
    client: Client,
    queue: str,
    consumer: str,
    keys: tuple[str, ...],
    limit: int,
    *,
    as_json: bool,
) -> None:
    found = client.call(calls.parked.get_parked(queue, consumer, keys or None, limit=limit + 1))
    show_rows([each._asdict() for each in found[:limit]], COLUMNS, as_json=as_json)
    if len(found) > limit:
        click.echo(f"only the first {limit}: --limit shows more", err=True)
