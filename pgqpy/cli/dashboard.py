"""``pgqpy dashboard``: serve it, or make a line of its password file."""

from __future__ import annotations

import sys
from typing import Any

import click

from pgqpy.cli.options import Target, connected, on_terminal
from pgqpy.cli.output import say
from pgqpy.errors import InvalidArgument

VARIABLES = {"auto_envvar_prefix": "PGQPY_DASHBOARD"}


@click.group()
def dashboard() -> None:
    """Show the queues in a browser."""


@dashboard.command("run", context_settings=VARIABLES)
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
    "--password-file", metavar="FILE", help="Logins, one a line: pgqpy dashboard password."
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
@connected
def run(target: Target, /, **options: Any) -> None:
    """Serve the dashboard of a database, until SIGTERM or Ctrl-C.

    It listens on this machine only, where everybody may look. Any other address needs logins:
    --password-file, or a proxy that names its users. Each option is also a variable, such as
    PGQPY_DASHBOARD_PORT.

    Example: pgqpy dashboard run --port 9432
    """
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


@dashboard.command("password")
@click.argument("name")
@click.option(
    "--role", type=click.Choice(["viewer", "operator"]), default="viewer", show_default=True
)
def password(name: str, role: str) -> None:
    """Print the line of a login for --password-file.

    It asks for the password; in a pipe, standard input is the password.

    Example: pgqpy dashboard password anna --role operator
    """
    from pgqpy.dashboard.passwords import make_entry

    if on_terminal():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    try:
        click.echo(make_entry(name, role, text))
    except InvalidArgument as exc:
        raise click.UsageError(str(exc)) from exc
