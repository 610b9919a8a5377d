"""``pgqpy demo`` and ``pgqpy simulate``: trials on a temporary PostgreSQL."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource

from pgqpy.cli.options import FiniteRange, Target, named_dsn, on_trial
from pgqpy.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command()
@click.option("--seconds", type=click.IntRange(2, 3600), default=15, show_default=True)
@click.option("--clients", type=click.IntRange(1, 256), default=4, show_default=True)
@click.option(
    "--dashboard", is_flag=True, help="Show the demo in a browser; on a terminal until Ctrl-C."
)
@on_trial
@click.pass_context
def demo(ctx: click.Context, target: Target, *, seconds: int, clients: int, dashboard: bool) -> int:
    """Insert events with pgbench, kill one of two workers half way, then compare every balance.

    If Java and pgqpy[spark] are installed, Spark reads the same events into parquet at the end.

    The demo starts a temporary PostgreSQL (pip install 'pgqpy[embedded]') and ignores PGQPY_DSN.
    With --dsn it uses that database, in a schema pgqpy_demo. Exit code 1 if an event was lost or
    processed twice.

    Example: pgqpy demo --seconds 30 --clients 8
    """
    from pgqpy.demo import Options
    from pgqpy.demo import run as run_demo

    if dashboard:
        from pgqpy.dashboard import check_packages

        check_packages()

    dsn = named_dsn(ctx, target)
    return run_demo(Options(_missing_for_spark(), dsn, seconds, clients, dashboard))


def _missing_for_spark() -> str:
    """Return how to install what Spark lacks; empty if it can run. The demo may not import it."""
    from pgqpy.spark.session import check_java, check_packages

    try:
        check_packages()
        check_java()
    except MissingExtra as exc:
        return str(exc)
    return ""


class Parser(click.ParamType):  # type: ignore[type-arg]  # it takes one since click 8.4
    """A value that one of the simulation's own functions parses."""

    def __init__(self, name: str) -> None:
        """Name the function after `parse_`, and the value in the help."""
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a word."""
        from pgqpy import simulate as simulation

        parse: Callable[[str], Any] = getattr(simulation, f"parse_{self.name}")
        try:
            return parse(str(value))
        except ValueError as exc:
            self.fail(str(exc), param, ctx)


@click.command()
@click.option(
    "--fill",
    type=click.IntRange(1, 10_000_000),
    default=1000,
    show_default=True,
    help="Events, inserted before the workers start.",
)
@click.option(
    "--rate",
    type=FiniteRange(0.1, 100_000),
    help="Insert them while the workers run, so many per second.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=5, show_default=True, help="Processes."
)
@click.option(
    "--keys",
    type=click.IntRange(1, 1_000_000),
    default=6,
    show_default=True,
    help="Different keys of events, of three types.",
)
@click.option(
    "--work",
    type=Parser("work"),
    default="1ms-10ms",
    show_default=True,
    metavar="TIME[-TIME]",
    help="How long a handler takes.",
)
@click.option(
    "--fail",
    type=FiniteRange(0, 1),
    default=0.01,
    show_default=True,
    help="The probability that a handler fails.",
)
@click.option(
    "--kill-every",
    type=Parser("duration"),
    default="5s",
    show_default=True,
    metavar="TIME",
    help="Time between two kills of a worker; 0: never.",
)
@click.option(
    "--compare/--no-compare",
    default=True,
    show_default=True,
    help="Put the same load on pggo_msg_queue too; that takes twice as long.",
)
@click.option(
    "--delmsg", is_flag=True, help="pggo_msg_queue deletes a handled message instead of marking it."
)
@click.option(
    "--sleep",
    type=Parser("duration"),
    default="1s",
    show_default=True,
    metavar="TIME",
    help="How long a worker of pggo_msg_queue sleeps that found no message.",
)
@click.option(
    "--schema",
    type=click.File(),
    help="SQL that makes the table of pggo_msg_queue and its indexes.",
)
@click.option("--keep", is_flag=True, help="Leave the queue and the table; only with --dsn.")
@click.option(
    "--log",
    type=click.File("w", lazy=False),
    help="Write a JSON line for each insert, commit, handling and kill; -: stdout.",
)
@click.option("--seed", type=click.IntRange(0), help="Repeat the random choices of another run.")
@on_trial
@click.pass_context
def simulate(
    ctx: click.Context,
    /,
    target: Target,
    *,
    log: TextIO | None,
    schema: TextIO | None,
    **settings: Any,
) -> int:
    """Verify on this machine that no event is lost, handled twice, or out of order.

    Producers insert events; workers handle them, fail, and are killed. Then a checker compares what
    was committed with what was handled. Exit code 1 if a promise was broken.

    Then pggo_msg_queue, a table that is polled with SKIP LOCKED, gets the same load without kills
    and failures; the result shows both. Ctrl-C ends that part and leaves pgqpy's result.

    The simulation starts a temporary PostgreSQL (pip install 'pgqpy[embedded]') and ignores
    PGQPY_DSN. With --dsn it uses that database, with a queue and a schema pgqpy_simulate.

    Example: pgqpy simulate --workers 12 --rate 100 --delmsg
    """
    from pgqpy.simulate import Options
    from pgqpy.simulate import run as run_simulation

    dsn = named_dsn(ctx, target)
    if settings["keep"] and dsn is None:
        raise click.UsageError("--keep needs --dsn: a temporary server is removed")
    for name in ("delmsg", "sleep", "schema"):
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and not settings["compare"]:
            raise click.UsageError(f"--{name} belongs to the comparison: leave out --no-compare")
    if settings["seed"] is None:
        settings["seed"] = random.SystemRandom().randrange(1_000_000)
    options = Options(**{name: value for name, value in settings.items() if value is not None})
    return run_simulation(options, dsn, log, None if schema is None else schema.read())
