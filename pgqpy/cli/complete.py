"""Shell completion of queues, consumers, cron entries and settings.

After any error the list of completions is empty: a shell shows no error messages here.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from pgqpy.calls.admin import QUEUE_SETTINGS
from pgqpy.cli import queries as lookups
from pgqpy.cli.options import Target
from pgqpy.client import connect_as_tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from pgqpy import Client

CONNECT_TIMEOUT = 2  # seconds, libpq's minimum
STATEMENT_TIMEOUT = 2000  # milliseconds

CONDITIONS = ("type", "extra1", "extra2", "extra3", "extra4")
SHARING = ("mode", "key", "per_key", "limit_in_flight", "rate")
REGISTRATION = (*SHARING, *CONDITIONS, "policy", "after", "size", "attached")  # of consumer set


def queues(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a queue."""
    with suppress(Exception), _client(ctx) as client:
        return _matches(incomplete, (info.queue_name for info in client.get_queue_info()))
    return []


def consumers(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a consumer of the queue that was named before it."""
    with suppress(Exception), _client(ctx) as client:
        infos = lookups.consumers(client, ctx.params.get("queue"))
        return _matches(incomplete, {info.consumer_name for info in infos})
    return []


def cron_entries(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a cron entry."""
    with suppress(Exception), _client(ctx) as client:
        return _matches(incomplete, (entry.name for entry in client.get_cron_info()))
    return []


def settings(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a queue's setting."""
    return _matches(incomplete, (f"{name}=" for name in QUEUE_SETTINGS))


def registration(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a setting of consumer set."""
    return _matches(incomplete, (f"{name}=" for name in REGISTRATION))


def extras(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an extra."""
    return _matches(incomplete, (f"{name}=" for name in CONDITIONS[1:]))


def consumer_settings(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a consumer's setting."""
    from pgqpy.consumers.settings import SETTINGS as NAMES

    return _matches(incomplete, (f"{name}=" for name in NAMES))


def _matches(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the names that a shell takes as they are: others could be a command to it.

    Whoever may register a consumer chooses its name.
    """
    plain = (name for name in names if shlex.quote(name) == name)
    return sorted(name for name in plain if name.startswith(incomplete))


def _client(ctx: click.Context) -> Client:
    client = connect_as_tool(ctx.ensure_object(Target).dsn, connect_timeout=CONNECT_TIMEOUT)
    client.connection.execute(f"set statement_timeout = {STATEMENT_TIMEOUT}".encode())
    return client
