"""``pgqpy event schema``: the JSON Schema of a typed event, its columns, and a check for CI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pgqpy import json_schemas
from pgqpy.cli.failures import FAILED
from pgqpy.cli.output import say

if TYPE_CHECKING:
    from typing import TextIO


def schemas(place: str) -> tuple[Any, Any]:
    """Return the schemas of what ``module:Class`` writes and reads."""
    from pgqpy.cli.consumer_run import import_object
    from pgqpy.typed_events import TypedEvent, kind_of

    found = import_object(place, "orders:Placed", TypedEvent)
    if not isinstance(found, type):
        raise click.ClickException(f"{place} is no class")
    try:
        adapter = kind_of(found).adapter
    except TypeError as exc:
        raise click.ClickException(str(exc)) from exc
    written, read = (adapter.json_schema(mode=mode) for mode in ("serialization", "validation"))
    return written, read


def columns(place: str) -> str:
    """Return the columns of ``module:Class`` as Spark's DDL."""
    try:
        return json_schemas.ddl(*schemas(place))
    except ValueError as exc:
        raise click.ClickException(f"{place}: {exc}") from exc


@click.command()
@click.argument("place", metavar="MODULE:CLASS")
@click.option("--ddl", is_flag=True, help="Print Spark's columns, for pipeline run --schema.")
@click.option(
    "--check",
    "old",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Say whether the class reads what was written by this schema; exit code 1 if not.",
)
def schema(place: str, *, ddl: bool, old: TextIO | None) -> int:
    """Print the JSON Schema of a typed event.

    Keep it in a file beside the class. --check in CI then finds a change that cannot read the
    events that are there: one line for each field that breaks.

    Example: pgqpy event schema orders:Placed --ddl
    """
    if ddl and old is not None:
        raise click.UsageError("--ddl and --check exclude each other")
    if ddl:
        click.echo(columns(place))
        return 0
    written, read = schemas(place)
    if old is None:
        click.echo(json.dumps(written, indent=2, ensure_ascii=False))
        return 0
    try:
        found = json_schemas.breaks(json.load(old), read)
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        problem = f"is no JSON Schema that `pgqpy event schema` has printed: {exc}"
        raise click.ClickException(f"{old.name} {problem}") from exc
    for line in found:
        click.echo(line)
    if not found:
        say(f"{place} reads what {old.name} describes")
    return FAILED if found else 0
