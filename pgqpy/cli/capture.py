"""``pgqpy capture``: make the changes of tables events, and copy the rows that are there."""

from __future__ import annotations

import shlex
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from pgqpy import table_copy
from pgqpy.calls import capture as calls
from pgqpy.cli import complete
from pgqpy.cli.options import Noun, Target, connected, json_option
from pgqpy.cli.output import say, show_rows
from pgqpy.texts import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click._termui_impl import ProgressBar  # click exports no name of it

    from pgqpy import Client
    from pgqpy.records import Capture
    from pgqpy.table_copy import Place

LIST = {
    "queue": "queue_name",
    "table": "table_name",
    "key": "key_columns",
    "always": "always",
}
PROBLEMS = {**LIST, "problems": "problems"}
LINE = 10.0  # seconds between two lines of progress, without a terminal

tables_argument = click.argument("tables", metavar="TABLE…", nargs=-1, required=True)


@click.group(cls=Noun)
def capture() -> None:
    """Turn changes of tables into events, and copy the rows that are there."""


@capture.command()
@tables_argument
@click.option("--queue", required=True, shell_complete=complete.queues, help="It gets the events.")
@click.option("--always", is_flag=True, help="Capture also what replication writes.")
@connected
def add(target: Target, tables: tuple[str, ...], queue: str, *, always: bool) -> None:
    """Make the changes of tables events of a queue, from now on.

    Writers of a table are blocked for a moment. A table that is captured already gets its triggers
    anew, for a key or name that has changed.

    Example: pgqpy capture add public.orders public.customers --queue shop
    """
    with target.client() as client:
        for table in tables:
            client.call(calls.add_capture(queue, table, always=always))
            found = table_copy.find_capture(client, table)
            key = ", ".join(found.key_columns)
            say(f"captures {found.table_name} with the key {key} into queue {queue}")
    say(f"to copy the rows that are there: pgqpy capture snapshot {shlex.join(tables)}")


@capture.command()
@tables_argument
@connected
def remove(target: Target, tables: tuple[str, ...]) -> None:
    """End the capture of tables. Their events stay in the queue.

    Example: pgqpy capture remove public.orders
    """
    with target.client() as client:
        for table in tables:
            removed = client.call(calls.remove_capture(table))
            say(f"{table} is no longer captured" if removed else f"{table} was not captured")


@capture.command("list")
@click.option("--check", is_flag=True, help="Show what is wrong; exit with 1 if anything is.")
@json_option
@connected
def list_(target: Target, *, check: bool, as_json: bool) -> int:
    """List the captured tables.

    Example: pgqpy capture list --check
    """
    with target.client() as client:
        rows = [found._asdict() for found in client.call(calls.get_captures())]
    if check:
        rows = [row for row in rows if row["problems"]]
        if not rows and not as_json:
            say("nothing is wrong with the captured tables")
            return 0
    show_rows(rows, PROBLEMS if check else LIST, as_json=as_json)
    if check and rows:
        say(
            "correct what is wrong; then pgqpy capture add TABLE --queue QUEUE makes the triggers "
            "anew, and pgqpy capture snapshot TABLE copies the rows"
        )
    return int(check and bool(rows))


@capture.command()
@tables_argument
@connected
def ddl(target: Target, tables: tuple[str, ...]) -> None:
    """Print CREATE TABLE for captured tables, as a mirror needs them in another database.

    Example: pgqpy capture ddl public.orders | psql postgresql://localhost/reports
    """
    with target.client() as client:
        found = [table_copy.find_capture(client, table) for table in tables]
        for captured in found:
            click.echo(client.call(calls.get_definition(captured)))


@capture.command()
@tables_argument
@click.option(
    "--from",
    "start",
    metavar="BLOCK",
    default="0",
    help="Go on with the first table here, as a snapshot that was stopped has printed.",
)
@connected
def snapshot(target: Target, tables: tuple[str, ...], start: str) -> None:
    """Copy the rows of captured tables as events, while others write to them.

    Consumers get each row as an event schema.table.snapshot, in its place among the changes. A copy
    that is stopped or killed goes on with --from. A partition can be named as a table.

    Example: pgqpy capture snapshot public.orders public.customers
    """
    try:
        place = table_copy.parse_place(start)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--from") from None
    with target.client(waits=True) as client:
        client.connection.execute("set default_transaction_isolation = 'read committed'")
        found = [table_copy.find_capture(client, table) for table in tables]
        parts = [client.call(calls.get_parts(table)) for table in tables]
        todo = [(each, part) for each, its in zip(found, parts, strict=True) for part in its]
        while todo:
            _copy(client, todo, place)
            del todo[0]
            place = (0, None)


def _copy(client: Client, todo: list[tuple[Capture, str]], start: tuple[int, int | None]) -> None:
    """Copy the first of the tables; if that ends early, say how to go on."""
    captured, table = todo[0]
    places = table_copy.copy_table(client, captured, table, start, say)
    began, rows, where = time.monotonic(), 0, ""
    try:
        for place in _with_progress(places, table):
            rows, where = place.rows, f" --from {place}"
    except BaseException:
        rest = shlex.join(name for _, name in todo)
        say(f"stopped; to go on: pgqpy capture snapshot {rest}{where}")
        raise
    seconds = timedelta(seconds=time.monotonic() - began)
    say(f"copied {rows:,} row(s) of {table} in {duration(seconds)}")


def _with_progress(places: Iterator[Place], table: str) -> Iterator[Place]:
    """Show a bar on a terminal, elsewhere a line now and then."""
    began = told = time.monotonic()
    if sys.stderr.isatty():
        bar: ProgressBar[Place] = click.progressbar(
            length=1,
            label=table,
            file=sys.stderr,
            item_show_func=lambda place: "" if place is None else _rate(place, began),
        )
        with bar:
            for place in places:
                yield place
                bar.length = max(place.blocks, 1)
                bar.update(place.block - bar.pos, place)
        return
    for place in places:
        yield place
        if time.monotonic() > told + LINE:
            told = time.monotonic()
            say(f"{table}: block {place} of {place.blocks}, {_rate(place, began)}")


def _rate(place: Place, began: float) -> str:
    return f"{place.rows / max(time.monotonic() - began, 0.001):,.0f} rows/s"
