"""Repair queues whose transaction ids ran backwards (a dump restored into a younger cluster)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click
import psycopg

from pgqpy.cli.failures import explain
from pgqpy.cli.queries import queue_info
from pgqpy.errors import DatabaseRestored, PgqError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqpy import Client


class _Undo(Exception):
    """Roll the trial back."""


def repair_queues(client: Client, names: Sequence[str]) -> int:
    """Repair the named queues, or all, where they refuse to tick; return how many failed."""
    chosen = [queue_info(client, name).queue_name for name in names]
    chosen = chosen or [info.queue_name for info in client.get_queue_info()]
    refused = [name for name in chosen if refuses(client, name)]
    if not refused:
        click.echo("no queue needs a repair", err=True)
    return sum(not _repair(client, name) for name in refused)


def refuses(client: Client, name: str) -> bool:
    """Say whether a tick of the queue fails with PQ012; the trial leaves no tick behind."""
    try:
        _tick_in_vain(client, name)
    except DatabaseRestored:
        return True
    return False


def _tick_in_vain(client: Client, name: str) -> None:
    with suppress(_Undo), client.transaction():
        client.tick_queue(name)
        raise _Undo


def _repair(client: Client, name: str) -> bool:
    try:
        kept = client.repair_queue(name)
    except (PgqError, psycopg.Error) as exc:  # the other queues are repaired all the same
        click.echo(f"error: queue {name} is not repaired: {explain(exc)}", err=True)
        return False
    click.echo(f"repaired queue {name}: {kept} event(s) kept", err=True)
    return True
