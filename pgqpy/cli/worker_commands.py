"""The command lines of the worker processes of ``pgqpy consumer run --workers N``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pgqpy.own_process import own_process
from pgqpy.ticker.web import CannotListen, listen

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST_PORT = 65535


def worker_commands(
    number: int,
    place: str,
    settings: Sequence[str],
    logs: Sequence[str],
    metrics: tuple[str, int | None],
) -> list[list[str]]:
    """Return the command line of each worker process.

    `metrics` are the host and the port of the first one; each next one has the next port. With port
    0 each takes any free one; with None there are no metrics.
    """
    options = [word for setting in settings for word in ("--set", setting)]
    run = own_process("pgqpy", "consumer", "run", *options, *logs, "--supervised")
    host, first = metrics
    if first is None:
        return [[*run, "--", place]] * number
    ports = [first + n if first else 0 for n in range(number)]
    if ports[-1] > LAST_PORT:
        raise click.UsageError(f"--metrics-port: {number} workers need ports up to {ports[-1]}")
    for port in ports:
        try:
            listen(host, port).close()
        except CannotListen as exc:
            raise click.ClickException(str(exc)) from exc
    ports_of = [["--metrics-host", host, "--metrics-port", str(port)] for port in ports]
    return [[*run, *own, "--", place] for own in ports_of]
