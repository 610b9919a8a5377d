"""The steps of `pgqpy simulate` in order, and its exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from pgqpy import connect
from pgqpy.sandbox.abort import ignore_signals, interruptible
from pgqpy.sandbox.database import embedded_database, existing_database
from pgqpy.sandbox.user_database import Contents
from pgqpy.sandbox.view import open_view
from pgqpy.simulate.names import QUEUE
from pgqpy.simulate.report import judge, print_result
from pgqpy.simulate.scenario import play

if TYPE_CHECKING:
    from pgqpy.simulate.options import Options

FINE, FAILED, INTERRUPTED = 0, 1, 130


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
    return FAILED if result.violations else FINE
