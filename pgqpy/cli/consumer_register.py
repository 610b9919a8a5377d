"""``pgqpy consumer register``: subscribe a consumer, move it to a tick, or change its filter."""

from __future__ import annotations

import click

from pgqpy.calls import filters
from pgqpy.cli import complete
from pgqpy.cli.consumer_seek import ask_to_skip
from pgqpy.cli.options import Target, connected, split_settings


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("name")
@click.option("--at", "tick_id", type=int, metavar="TICK", help="Start after this tick.")
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
@click.option("--yes", is_flag=True, help="Do not ask, even if --at skips events.")
@connected
def register(
    target: Target,
    queue: str,
    name: str,
    *,
    tick_id: int | None,
    types: tuple[str, ...],
    extras: tuple[str, ...],
    yes: bool,
) -> None:
    """Register a consumer on a queue. It receives the events inserted from now on.

    With --at, a consumer that is registered already moves to that tick. If it skips events that it
    has not finished, a terminal asks; elsewhere --yes is required.

    With --type or --extra it takes only these of the events that it has not finished; --type '*'
    takes all again.

    Example: pgqpy consumer register orders billing --type 'order.*' --extra extra1=eu
    """
    values: dict[str, list[str]] = {}
    for key, value in split_settings(extras, "--extra extra1=eu"):
        values.setdefault(key, []).append(value)
    with target.client() as client:
        if tick_id is not None and not yes:
            for info in client.get_consumer_info(queue, name):
                ask_to_skip(client, info, tick_id)
        with client.transaction():
            if tick_id is None:
                new = client.register_consumer(queue, name)
            else:
                new = client.register_consumer_at(queue, name, tick_id)
            changed = False
            if types or extras:
                chosen = types or None
                changed = bool(client.set_consumer_filter(queue, name, types=chosen, extras=values))
    click.echo(_describe(queue, name, tick_id, new=bool(new), changed=changed), err=True)
    if types or extras:
        click.echo(f"it takes {filters.describe_filter(types or None, values)}", err=True)


def _describe(queue: str, name: str, tick_id: int | None, *, new: bool, changed: bool) -> str:
    if new:
        return f"registered {name} on {queue}"
    if tick_id is not None:
        return f"moved {name} on {queue} to tick {tick_id}"
    what = "its filter is changed" if changed else "nothing changed"
    return f"{name} was registered on {queue} already: {what}"
