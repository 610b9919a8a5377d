"""python -m pgqpy.ticker: the daemon without the rest of the command line."""

from __future__ import annotations

import argparse
import sys

from pydantic import ValidationError

from pgqpy.settings import TickerSettings, problems
from pgqpy.ticker.daemon import WRONG_USAGE, run


def main(arguments: list[str] | None = None) -> int:
    """Run the daemon with these arguments (the process's own); return its exit code."""
    parser = make_parser()
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value}
    if "dsns" in given:
        given["dsns"] = tuple(given["dsns"])
    try:
        settings = TickerSettings(**given)
    except ValidationError as exc:
        for problem in problems(exc):
            print(f"pgqpy ticker: {problem}", file=sys.stderr)  # noqa: T201  # no log yet
        return WRONG_USAGE
    return run(settings)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser: the settings one needs by hand; the others are PGQPY_… variables."""
    parser = argparse.ArgumentParser(
        prog="python -m pgqpy.ticker",
        description="Tick the queues of one or more databases, retry, rotate and clean up.",
        epilog="Every setting is an environment variable too, as PGQPY_HTTP_PORT=9187.",
    )
    parser.add_argument(
        "--dsn",
        action="append",
        dest="dsns",
        help="a database to serve (repeatable); else PGQPY_DSN, else libpq's PG* variables",
    )
    parser.add_argument("--http-host", help="where /healthz and /metrics listen (127.0.0.1)")
    parser.add_argument("--http-port", help="their port; 0 takes any; without it they are off")
    parser.add_argument("--poll-interval", help="seconds between looks while events come in")
    parser.add_argument("--tick-interval", help="seconds from a tick to the next look")
    parser.add_argument("--idle-poll-interval", help="seconds between looks otherwise")
    parser.add_argument("--retry-period", help="seconds between moves out of the retry queue")
    parser.add_argument("--maint-period", help="seconds between rotation and clean-up")
    parser.add_argument("--log-format", choices=["console", "json"])
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"])
    return parser


if __name__ == "__main__":
    sys.exit(main())
