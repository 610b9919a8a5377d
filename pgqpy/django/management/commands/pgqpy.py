"""``manage.py pgqpy``: commands of pgqpy, in Django's database and with its models."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import autoreload

from pgqpy.cli import main
from pgqpy.django.database import alias_of, dsn_of
from pgqpy.errors import PgqError

COMMANDS = {"run": ("consumer", "run"), "ticker": ("ticker", "run"), "doctor": ("doctor",)}


class Command(BaseCommand):
    """Forwards to the command line of pgqpy, which names its options with --help."""

    help = (
        "run MODULE:CLASS runs a consumer (with --reload: again after each change of the code), "
        "ticker runs the ticker, doctor finds problems; each with the options of pgqpy consumer "
        "run, pgqpy ticker run, pgqpy doctor"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take one of the commands, and what it has."""
        parser.add_argument("what", choices=COMMANDS)
        parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...")

    def handle(self, *_: Any, what: str, rest: list[str], **__: Any) -> None:
        """Run it; the process ends with its exit code."""
        if any(word.startswith("--worker") for word in rest):
            raise CommandError("start manage.py pgqpy run several times, in place of --workers")
        try:
            dsn = "" if what == "run" else dsn_of(alias_of())  # a consumer knows its own alias
        except PgqError as error:
            raise CommandError(str(error)) from error
        words = ["--dsn", dsn, *COMMANDS[what], *(word for word in rest if word != "--reload")]
        if what == "run" and "--reload" in rest:
            autoreload.run_with_reloader(main, words)
        else:
            main(words)
