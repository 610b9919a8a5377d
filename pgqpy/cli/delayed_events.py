"""``pgqpy event delayed``: list the events that are not yet in their queue."""

from __future__ import annotations

import click

from pgqpy.cli import complete
from pgqpy.cli.options import Target, connected, json_option, limit_option
from pgqpy.cli.output import show_rows

COLUMNS = {
    "due": "ev_deliver_at",
    "id": "ev_id",
    "inserted": "ev_time",
    "type": "ev_type",
    "data": "ev_data",
}


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@limit_option(100)
@json_option
@connected
def delayed(target: Target, queue: str, *, limit: int, as_json: bool) -> None:
    """List the delayed events of a queue, the one that is due first.

    Example: pgqpy event delayed orders --limit 3
    """
    with target.client() as client:
        found = client.get_delayed_events(queue, limit=limit + 1)
    show_rows([each._asdict() for each in found[:limit]], COLUMNS, as_json=as_json)
    if len(found) > limit:
        click.echo(f"only the first {limit}: --limit shows more", err=True)
