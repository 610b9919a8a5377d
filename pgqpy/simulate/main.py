"""The steps of `pgqpy simulate` in order, its result and its exit code."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgqpy import connect
from pgqpy.sandbox import (
    Contents,
    duration,
    embedded_database,
    existing_database,
    ignore_signals,
    interruptible,
    open_view,
)
from pgqpy.simulate import peer
from pgqpy.simulate.checker import ALONE, LOST, ORDER, PROMISES, TWICE, check, redelivered
from pgqpy.simulate.options import QUEUE, SCHEMA
from pgqpy.simulate.scenario import Peer, Pgqpy

if TYPE_CHECKING:
    from pgqpy.simulate.checker import History, Violation
    from pgqpy.simulate.options import Options

SHOWN = 10  # violations of each kind
PASSED = "verdict: passed, every promise was kept"
FAILED = "verdict: FAILED"
NANOSECONDS = 1e9
PERCENTILES = (50, 99)


class Result(NamedTuple):
    """What a simulation was found to be."""

    options: Options
    history: History
    violations: list[Violation]
    peer: History | None = None  # None: not compared


def print_result(result: Result, *, on_stderr: bool = False) -> None:
    """Print the figures, what was verified and the verdict."""
    console = Console(highlight=False, stderr=on_stderr)
    table = Table(box=box.ROUNDED)
    table.add_column()
    for name in (Pgqpy.name, Peer.name)[: 1 if result.peer is None else 2]:
        table.add_column(name, justify="right")
    for name, *values in figures(result):
        table.add_row(name, *(Text(value, style="bold") for value in values))
    console.print(table)
    for line, style in findings(result):
        console.print(Text(line, style), soft_wrap=True)


def figures(result: Result) -> list[tuple[str, ...]]:
    """Return the rows of the table: what is measured, pgqpy's value, the peer's if there is one."""
    history, options = result.history, result.options
    ours = _measures(history, result.violations, options)
    rows: list[tuple[str, ...]] = list(ours.items())
    if result.peer is not None:
        theirs = _measures(result.peer, check(result.peer), options)
        polls = ("polls that found nothing", "", f"{result.peer.empty_polls:,}")
        rows = [*((name, value, theirs[name]) for name, value in ours.items()), polls]
    failed = sum(handling.outcome == "failed" for handling in history.handlings)
    return [
        *rows,
        ("handlers failed", f"{failed:,}"),
        ("events given up", f"{len(history.dead):,}"),
        ("workers killed", f"{len(history.killed):,}"),
        ("handled again after a kill", f"{redelivered(history):,}"),
        ("seed", str(options.seed)),
    ]


def _measures(history: History, violations: list[Violation], options: Options) -> dict[str, str]:
    """Return what is measured of both systems."""
    outcomes = [insert.outcome for insert in history.inserts.values()]
    handled = {it.event for it in history.handlings if it.outcome == "ok"}
    backlog = "" if options.rate else ", backlog included"
    return {
        "events committed": f"{len(history.stored):,}",
        "events rolled back": f"{outcomes.count('rollback'):,}",
        "events handled": f"{len(handled):,}",
        "handled per second": f"{_rate(history, len(handled)):,.0f}",
        **{
            f"insert to handled p{percent}{backlog}": duration(seconds)
            for percent, seconds in zip(PERCENTILES, _latencies(history), strict=True)
        },
        "order broken": _count(violations, ORDER),
        "handled beside another of its key": _count(violations, ALONE),
        "handled twice": _count(violations, TWICE),
        "lost": _count(violations, LOST),
    }


def _count(violations: list[Violation], promise: str) -> str:
    """Count the events that break a promise: of two events, the one that began later."""
    return f"{len({it.events[-1] for it in violations if it.promise == promise}):,}"


def findings(result: Result) -> list[tuple[str, str]]:
    """Return the lines below the table, each with its style."""
    lines = []
    for promise in PROMISES:
        # Of each event the first: one that comes again and again would fill the list.
        first = {it.events: it for it in reversed(result.violations) if it.promise == promise}
        broken = [first[events] for events in sorted(first)]
        if broken:
            lines.append((f"  BROKEN {promise}: {len(broken):,} time(s)", "bold red"))
        else:
            lines.append((f"  ok    {promise}", "green"))
        lines += [(f"        {_sentence(it)}", "red") for it in broken[:SHOWN]]
        if len(broken) > SHOWN:
            lines.append((f"        and {len(broken) - SHOWN:,} more", "red"))
    if result.peer is not None:
        lines += [(f"  note  {note}", "dim") for note in _notes(result.options)]
    lines.append((FAILED, "bold red") if result.violations else (PASSED, "bold green"))
    return lines


def _notes(options: Options) -> list[str]:
    """Say how the peer ran."""
    return [
        f"{Peer.name}: {peer.SOURCE}, its table and SQL, in Python",
        f"{Peer.name}: a worker that finds no message polls again after {duration(options.sleep)}",
        f"{Peer.name}: no worker was killed there, no handler failed; verified above is pgqpy",
    ]


def _sentence(violation: Violation) -> str:
    events = " and ".join(map(str, violation.events))
    return f"{'event' if len(violation.events) == 1 else 'events'} {events} {violation.text}"


def _rate(history: History, handled: int) -> float:
    ended = [handling for handling in history.handlings if handling.outcome != "none"]
    if not ended:
        return 0.0
    begin = min(handling.begin for handling in ended)
    return handled * NANOSECONDS / max(max(handling.end for handling in ended) - begin, 1)


def _latencies(history: History) -> list[float]:
    """Return the percentiles of the time from an INSERT to the end of the handler, in seconds."""
    ends: dict[int, float] = {}
    for handling in history.handlings:
        if handling.outcome == "ok" and handling.event in history.inserts:
            ends.setdefault(handling.event, handling.end)
    waits = sorted((end - history.inserts[it].began) / NANOSECONDS for it, end in ends.items())
    last = len(waits) - 1
    return [waits[last * percent // 100] if waits else 0.0 for percent in PERCENTILES]


FINE, VIOLATED, INTERRUPTED = 0, 1, 130


def run(
    options: Options, dsn: str | None = None, log: TextIO | None = None, create: str | None = None
) -> int:
    """Run a simulation; return the process's exit code: 0 passed, 1 violated, 130 interrupted.

    `dsn` names the server; None starts an embedded one. `log` gets a JSON line for each event that
    goes in or out. `create` is the SQL that makes the peer's table; None: its own. Call this in the
    main thread, which receives the signals. An interruption while the peer runs leaves it away.

    Raises MissingExtra, RunFailed, and errors of the server.
    """
    schema = SCHEMA if options.compare else None
    contents = Contents(command="simulate", queue=QUEUE, schema=schema, keep=options.keep)
    history = other = None
    try:
        with (
            interruptible(),
            open_view("simulate") as view,
            (
                embedded_database(contents, options.workers * 2, view.say)
                if dsn is None
                else existing_database(dsn, contents, view.say)
            ) as database,
        ):
            with connect(database.dsn) as client:
                if options.compare:
                    peer.make_table(client.connection, create)
                history = Pgqpy(database, client, options, view, log).play()
                if options.compare:
                    calm = replace(options, fail=0.0, kill_every=0.0)
                    other = Peer(database, client, calm, view, log).play()
            ignore_signals()
    except KeyboardInterrupt:
        with open_view("simulate") as view:
            view.say(f"interrupted: everything is stopped{'' if options.keep else ' and removed'}")
        if history is None:
            return INTERRUPTED
    result = Result(options, history, check(history), other)
    print_result(result, on_stderr=log is not None and log.name == sys.stdout.name)
    return VIOLATED if result.violations else FINE
