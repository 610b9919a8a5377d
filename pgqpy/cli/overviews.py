"""``pgqpy top``, ``pgqpy dashboard`` and ``pgqpy doctor``: the state of a database."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from pgqpy.cli.options import FiniteRange, Target, connected, json_option, on_terminal
from pgqpy.cli.output import say, show_row, show_rows
from pgqpy.doctor import Finding, examine
from pgqpy.errors import ConnectionFailed, InvalidArgument
from pgqpy.texts import escaped
from pgqpy.top.lines import QUEUES, SORTS, headline, in_order, problem_lines, text
from pgqpy.watch import Count, Watcher

if TYPE_CHECKING:
    from pgqpy.top.lines import Sort
    from pgqpy.watch import Snapshot


NO_SCREEN = ("", "dumb", "unknown")  # values of TERM


@click.command()
@click.option("--once", is_flag=True, help="Print the overview once, as in a pipe, and end.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default="lag",
    show_default=True,
    help="The first order of the queues; the worst come first.",
)
@json_option
@connected
def top(target: Target, *, once: bool, sort: Sort, as_json: bool) -> int:
    """Show queues, consumers and what is wrong, live, in the terminal.

    Keys sort, and look into a queue or consumer; ? lists them, q quits. It needs
    pip install 'pgqpy[top]'. Where no terminal is, or with --once or --json, it prints the overview
    once; events/s is then over the last 20 ticks of each queue. Any login may use it;
    pg_read_all_stats, pgq_admin and pgq_dashboard let it see more.

    Example: pgqpy top --once --sort dead
    """
    try:
        watcher = Watcher(target.dsn)
    except ConnectionFailed as exc:  # the DSN itself is wrong
        raise click.UsageError(str(exc)) from exc
    if once or as_json or not _has_screen():
        with watcher:
            return _show_once(watcher.poll(), sort, as_json=as_json)
    try:
        from pgqpy.top.app import Top
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "textual":
            raise
        msg = 'textual is needed: pip install "pgqpy[top]"; pgqpy top --once works without it'
        raise click.ClickException(msg) from None
    overview = Top(watcher, sort)
    bug = overview.run()
    if bug is not None:
        raise bug
    return overview.return_code or 0


def _has_screen() -> bool:
    streams = (sys.stdin, sys.stdout, sys.stderr)  # textual writes to standard error
    return all(each.isatty() for each in streams) and os.environ.get("TERM", "") not in NO_SCREEN


def _show_once(snapshot: Snapshot, sort: Sort, *, as_json: bool) -> int:
    if snapshot.no_answer is not None:
        raise click.ClickException(snapshot.no_answer.what)
    queues = in_order(snapshot.queues, sort)
    if as_json:
        show_row(_as_dict(snapshot, queues), as_json=True)
        return 0
    click.echo(headline(snapshot))
    for line in problem_lines(snapshot.problems):
        click.echo(line)
    if queues:
        click.echo()
        names = {column.heading: column.heading for column in QUEUES}
        rows = [{column.heading: text(column.value(each)) for column in QUEUES} for each in queues]
        show_rows(rows, names, as_json=False)
    return 0


def _as_dict(snapshot: Snapshot, queues: list[Any]) -> dict[str, Any]:
    """Return what the overview knows; a count that stopped at its limit is that limit."""
    return {
        "database": snapshot.database,
        "taken": snapshot.taken,
        "problems": [each._asdict() for each in snapshot.problems],
        "tickers": [_fields(each) for each in snapshot.tickers],
        "queues": [_fields(each) for each in queues],
        "consumers": [_fields(each) for each in snapshot.consumers],
    }


def _fields(record: Any) -> dict[str, Any]:
    values = ((field.name, getattr(record, field.name)) for field in fields(record))
    return {name: value.number if isinstance(value, Count) else value for name, value in values}


@click.command(context_settings={"auto_envvar_prefix": "PGQPY_DASHBOARD"})
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=9432, show_default=True)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="How browsers call the host; repeat for more.",
)
@click.option("--https", is_flag=True, help="A proxy in front speaks HTTPS: secure cookies.")
@click.option(
    "--password-file", metavar="FILE", help="Logins, one a line, as --new-login prints them."
)
@click.option("--user-header", metavar="NAME", help="The header in which a proxy names the user.")
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Whose header counts; may be repeated.",
)
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="USER",
    help="A user of the proxy who is operator; may be repeated.",
)
@click.option("--read-only", is_flag=True, help="Nobody changes anything.")
@click.option("--hide-payloads", is_flag=True, help="Show no data of events.")
@click.option("--new-login", metavar="NAME", help="Print a login's line for the file, and end.")
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator"]),
    default="viewer",
    show_default=True,
    help="Of the new login.",
)
@connected
def dashboard(target: Target, /, new_login: str | None, role: str, **options: Any) -> None:
    """Show the queues of a database in a browser, until SIGTERM or Ctrl-C.

    It listens on this machine only, where everybody may look. Any other address needs logins:
    --password-file, or a proxy that names its users. Each option is also a variable, such as
    PGQPY_DASHBOARD_PORT.

    --new-login asks for the password; in a pipe, standard input is the password.

    Example: pgqpy dashboard --port 9432
    """
    if new_login is not None:
        click.echo(_login(new_login, role))
        return
    from pgqpy.dashboard import check_packages

    check_packages()
    from pgqpy.dashboard.serve import Settings, serve
    from pgqpy.ticker.web import CannotListen

    try:
        serve(target.dsn, Settings(**options), lambda url: say(f"dashboard: {url}"))
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc
    except CannotListen as exc:
        raise click.ClickException(f"{exc}: --port names another") from exc


def _login(name: str, role: str) -> str:
    """Return a line of the password file."""
    from pgqpy.dashboard.access import make_entry

    if on_terminal():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    try:
        return make_entry(name, role, text)
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc


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
