"""``pgqpy consumer lanes``: divide a consumer into lanes."""

from __future__ import annotations

import click

from pgqpy import calls
from pgqpy.cli import complete, queries
from pgqpy.cli.options import Target, connected
from pgqpy.consumers.setting_values import KEYS, MAX_LANES


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name", shell_complete=complete.consumers)
@click.argument("number", type=click.IntRange(1, MAX_LANES))
@click.option("--key", type=click.Choice(KEYS), required=True, help="Where producers put the key.")
@connected
def lanes(target: Target, queue: str, name: str, number: int, *, key: str) -> None:
    """Divide a consumer into lanes, or change their number or key.

    Each event is in one lane, by its key, and events of a key are handled in order, over any number
    of processes. A consumer with lanes may be changed while it runs: the present lanes end at a
    tick, and new ones begin there. One without lanes must not run. Its next run needs lanes = N
    and the same key in its class.

    Example: pgqpy consumer lanes orders billing 8 --key extra1
    """
    with target.client() as client:
        queries.consumer_info(client, queue, name)
        changed = client.call(calls.lanes.set_lanes(queue, name, number, key))
    has = f"{number} lane(s) by {key}"
    click.echo(f"{name} on {queue} has {has}{'' if changed else ' already'}", err=True)
