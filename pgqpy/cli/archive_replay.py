"""``pgqpy archive replay``: archived events inserted again for one consumer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from pgqpy.cli import complete, queries
from pgqpy.cli.event_archive import open_store
from pgqpy.cli.moments import parse_moment, to_time
from pgqpy.cli.options import Target, connected
from pgqpy.cli.output import say

if TYPE_CHECKING:
    from pgqpy.cli.moments import Moment

# What the server must not store: the user and password, or access key, of a URL. In URLs of Azure
# the container is in that place, and two containers are two archives.
SECRET = re.compile(r"\b(?!(?:abfss?|adl|az|wasbs?)://[^/:]*@)([\w+.-]+://)[^/]*@")


@click.command()
@click.argument("queue", shell_complete=complete.queues)
@click.argument("consumer", shell_complete=complete.consumers)
@click.option("--from", "location", required=True, metavar="LOCATION", help="A folder or a URL.")
@click.option("--since", metavar="TIME", help="Events with this time or a later one.")
@click.option("--until", metavar="TIME", help="Events with an earlier time.")
@click.option("--again", is_flag=True, help="Begin anew, also if a replay is done or unfinished.")
@connected
def replay(
    target: Target,
    queue: str,
    consumer: str,
    *,
    location: str,
    since: str | None,
    until: str | None,
    again: bool,
) -> None:
    """Insert archived events again for one consumer, after all that is in the queue.

    Other consumers do not get these events. Left out are events that the consumer has yet to get,
    that wait for a retry, that its filter does not take, or that were cancelled lately. A
    detached consumer is refused: attach it first. TIME is 2026-01-31T14:00, 2026-01-31, or 90s,
    30min, 2h, 7d for so long ago.

    If the command is killed, run it again: it continues where it stopped, and inserts each event
    once. For events that the queue still keeps, pgqpy consumer seek is faster.

    Example: pgqpy archive replay orders billing --from s3://bucket/events --since 2026-01-01
    """
    ctx = click.get_current_context()
    first, last = (_parse(ctx, name, text) for name, text in (("since", since), ("until", until)))
    store = open_store(location)
    from pgqpy.archive.replay import ReplayOptions
    from pgqpy.archive.replay import replay as insert

    words = {"--from": SECRET.sub(r"\1", location), "--since": since, "--until": until}
    asked = " ".join(f"{name} {word}" for name, word in words.items() if word is not None)
    with target.client() as client:
        now = queries.server_time(client)
        options = ReplayOptions(
            queue, consumer, asked, to_time(first, now), to_time(last, now), again
        )
        done = insert(client, store, options, say)
    message = f"inserted {done.inserted:,} event(s) again for {consumer} on {queue}"
    if done.left_out:
        message += f"; left out {done.left_out:,} that it has yet to get or does not take"
    say(message)


def _parse(ctx: click.Context, name: str, text: str | None) -> Moment | None:
    (param,) = (each for each in ctx.command.params if each.name == name)
    return parse_moment(ctx, param, text)
