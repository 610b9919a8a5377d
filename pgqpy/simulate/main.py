"""The steps of `pgqpy simulate` in order, its result and its exit code."""

from __future__ import annotations

import sys
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
from pgqpy.simulate.checker import FILTER, KEY_PROMISES, PROMISES, check, redelivered
from pgqpy.simulate.options import QUEUE
from pgqpy.simulate.scenario import play

if TYPE_CHECKING:
    from pgqpy.simulate.checker import History, Violation
    from pgqpy.simulate.options import Options
    from pgqpy.simulate.scenario import Played

SHOWN = 10  # violations of each kind
PASSED = "verdict: passed, every promise was kept"
FAILED = "verdict: FAILED"
NANOSECONDS = 1e9
PERCENTILES = (50, 95, 99)


class Result(NamedTuple):
    """What a simulation was found to be."""

    options: Options
    history: History
    kills: int
    violations: list[Violation]


def judge(options: Options, played: Played) -> Result:
    """Check the history of a simulation."""
    return Result(options, *played, check(played.history))


def print_result(result: Result, *, on_stderr: bool = False) -> None:
    """Print the figures, what was verified and the verdict."""
    console = Console(highlight=False, stderr=on_stderr)
    table = Table(box=box.ROUNDED, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in figures(result):
        table.add_row(name, Text(value, style="bold"))
    console.print(table)
    for line, style in findings(result):
        console.print(Text(line, style), soft_wrap=True)


def figures(result: Result) -> list[tuple[str, str]]:
    """Return the rows of the table of figures."""
    history, handled = result.history, result.history.handled()
    outcomes = [insert.outcome for insert in history.inserts.values()]
    failed = sum(handling.outcome == "failed" for handling in history.handlings)
    good = sum(
        any(handling.outcome == "ok" for handling in handlings) for handlings in handled.values()
    )
    others = sum(not history.takes(event.content) for event in history.stored)
    backlog = ", backlog included" if result.options.fill else ""
    return [
        ("events committed", f"{len(history.stored):,}"),
        *([("events of other types", f"{others:,}")] if result.options.types else []),
        ("events rolled back", f"{outcomes.count('rollback'):,}"),
        ("events handled", f"{good:,}"),
        ("handlers failed", f"{failed:,}"),
        ("events given up", f"{len(history.dead):,}"),
        ("workers killed", f"{result.kills:,}"),
        ("handled again after a kill", f"{redelivered(history):,}"),
        ("events/s", f"{_rate(history, good):,.0f}"),
        *(
            (f"latency p{percent}, commit to handler{backlog}", duration(seconds))
            for percent, seconds in zip(PERCENTILES, _latencies(history), strict=True)
        ),
        ("seed", str(result.options.seed)),
    ]


def findings(result: Result) -> list[tuple[str, str]]:
    """Return the lines below the table, each with its style."""
    lines = []
    filtered = (FILTER,) if result.options.types else ()
    of_keys = KEY_PROMISES if result.options.ordered else ()
    for promise in (*PROMISES, *filtered, *of_keys):
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
    lines += [(f"  note  {note}", "dim") for note in _notes(result)]
    lines.append((FAILED, "bold red") if result.violations else (PASSED, "bold green"))
    return lines


def _notes(result: Result) -> list[str]:
    """Say what was not verified."""
    if not result.history.complete:
        return ["stopped early: what was not handled was not judged"]
    if not result.options.ordered:
        return ["--shared: no order per key is promised, none was verified"]
    retried = {it.event for it in result.history.handlings if it.retry is not None}
    if not retried or result.options.park:
        return []
    return [f"{len(retried):,} event(s) retried: they came after later events of their key"]


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
    """Return the percentiles of the time from the end of COMMIT to the handler, in seconds."""
    waits = sorted(
        max(handlings[0].begin - history.inserts[event].at, 0) / NANOSECONDS
        for event, handlings in history.handled().items()
        if event in history.inserts
    )
    last = len(waits) - 1
    return [waits[last * percent // 100] if waits else 0.0 for percent in PERCENTILES]


FINE, VIOLATED, INTERRUPTED = 0, 1, 130


def run(options: Options, dsn: str | None = None, log: TextIO | None = None) -> int:
    """Run a simulation; return the process's exit code: 0 passed, 1 violated, 130 interrupted.

    `dsn` names the server; None starts an embedded one. `log` gets a JSON line for each event that
    goes in or out. Call this in the main thread, which receives the signals.

    Raises MissingExtra, RunFailed, and errors of the server.
    """
    contents = Contents(command="simulate", queue=QUEUE, keep=options.keep)
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
                played = play(database, client, options, view, log)
            ignore_signals()
    except KeyboardInterrupt:
        with open_view("simulate") as view:
            view.say(f"interrupted: everything is stopped{'' if options.keep else ' and removed'}")
        return INTERRUPTED
    result = judge(options, played)
    print_result(result, on_stderr=log is not None and log.name == sys.stdout.name)
    return VIOLATED if result.violations else FINE
