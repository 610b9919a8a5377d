"""Lengths of time on the command line, and the same texts as settings of a queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click
import psycopg
import pytest

import pgqpy
from pgqpy.cli.moments import parse_timedelta
from tests.cli.support import Run, RunJson, failed_with

LENGTHS = {
    "90s": timedelta(seconds=90),
    "30min": timedelta(minutes=30),
    "2h": timedelta(hours=2),
    "7d": timedelta(days=7),
    "0.5 h": timedelta(minutes=30),
    "7 days": timedelta(days=7),
    "1 day": timedelta(days=1),
    "2 weeks": timedelta(weeks=2),
    "90 minutes": timedelta(minutes=90),
    "1 day 12 hours": timedelta(hours=36),
    "5 min 3 s": timedelta(minutes=5, seconds=3),
}


def parsed(text: str) -> timedelta | None:
    """Read a text as a command does."""
    command = click.Command("any")
    return parse_timedelta(click.Context(command), click.Option(["--after"]), text)


@pytest.mark.parametrize(("text", "length"), LENGTHS.items())
def test_length_means_the_same_to_commands_and_to_postgresql(
    text: str, length: timedelta, connection: psycopg.Connection[Any]
) -> None:
    assert parsed(text) == length
    assert connection.execute("select %s::interval", [text]).fetchone() == (length,)


@pytest.mark.parametrize("text", ["", "2", "h", "2 months", "2x", "1 day ago", "-2h", "²h", "2h,"])
def test_other_texts_are_no_lengths(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 90s, 30min, 2h, 7d"):
        parsed(text)


def test_retention_and_since_take_both_forms(
    run: Run, run_json: RunJson, client: pgqpy.Client
) -> None:
    client.create_queue("orders")
    for text in ("2h", "2 hours"):
        assert run("queue", "set", "orders", f"retention={text}").exit_code == 0
        assert run_json("queue", "show", "orders")["queue_retention"] == 7200
        assert run("event", "peek", "orders", "--since", text).exit_code == 0
    refused = run("queue", "set", "orders", "retention=soon")
    assert failed_with(refused, 1, "retention")
