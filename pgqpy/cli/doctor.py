"""``pgqpy doctor``."""

from __future__ import annotations

import sys
from datetime import timedelta

import click

from pgqpy.cli.options import FiniteRange, Target, connected, json_option
from pgqpy.cli.output import show_rows
from pgqpy.doctor import Finding, examine
from pgqpy.texts import escaped

COLUMNS = {"level": "level", "check": "check", "what, and what to do": "what"}
STYLES = {"ok": "green", "skipped": "cyan", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option(
    "--long-transaction",
    type=FiniteRange(min=0, min_open=True, max=86400 * 365),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Age from which an open transaction is a failure.",
)
@json_option
@connected
def doctor(target: Target, *, long_transaction: float, as_json: bool) -> int:
    """Find problems with the queues of a database, and say how to solve them.

    The checks cover schema, rights, ticker, consumers, rotation, retry and dead events, and
    whatever holds xmin back. Exit code 1 if a check fails; warnings leave it 0. A check is skipped
    if the role lacks the right to make it; pgq_admin and pg_read_all_stats suffice for all.

    Example: pgqpy doctor --json
    """
    with target.client(any_owner=True) as client:
        limit = timedelta(seconds=long_transaction)
        findings = list(examine(client.connection, long_transaction=limit))
    if as_json:
        show_rows([found._asdict() for found in findings], {}, as_json=True)
    elif sys.stdout.isatty():
        show_rows(map(_folded, findings), COLUMNS, as_json=False, styles=STYLES)
    else:
        for found in findings:
            remedy = f"; {found.remedy}" if found.remedy else ""
            click.echo(escaped(f"{found.level:<7}  {found.check:<11}  {found.what}{remedy}"))
    return 1 if any(found.level == "fail" for found in findings) else 0


def _folded(found: Finding) -> dict[str, str]:
    """Put the remedy on a line of its own: a terminal is 80 columns wide."""
    remedy = f"\n-> {found.remedy}" if found.remedy else ""
    return {"level": found.level, "check": found.check, "what": found.what + remedy}
