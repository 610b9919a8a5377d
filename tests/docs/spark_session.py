"""Run commands with one Spark session: `python spark_session.py`, a command on each line of stdin.

A command is `python FILE` or `pgqpy …`. After its output comes a line: END and its exit code. To
start Spark for each of them takes ten seconds, so a command cannot stop the session.
"""

from __future__ import annotations

import runpy
import shlex
import sys
import traceback

from pgqpy.cli import main as pgqpy

END = "end of the command, exit code"


def run(words: list[str]) -> object:
    """Run a command as its own process would be run; return its exit code."""
    program, *sys.argv = words
    try:
        if program == "python":
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            pgqpy(sys.argv)
    except SystemExit as end:
        return end.code or 0
    except Exception:  # noqa: BLE001  # as Python itself
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Go on until the input ends."""
    from pyspark.sql import SparkSession

    SparkSession.stop = lambda self: None  # type: ignore[method-assign]  # for later commands
    for line in sys.stdin:
        code = run(shlex.split(line))
        sys.stderr.flush()
        sys.stdout.write(f"{END} {code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
