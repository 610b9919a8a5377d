"""Texts of the overview: pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pgqpy.doctor import Finding
from pgqpy.top.lines import answer_line, fitting, problem_lines, size, text
from pgqpy.watch import Count, NoAnswer, Snapshot

NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=timezone.utc)
TAKEN = Snapshot(taken=NOW - timedelta(seconds=70))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (1.26, "1.3"),
        (412.4, "412"),
        (timedelta(seconds=3.2), "3.2 s"),
        (Count(10_000, more=True), "10,000+"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("x" * 65, "x" * 63 + "…"),
        (NOW, "2026-11-23 12:00:00"),
    ],
)
def test_a_value_is_one_short_line(value: Any, shown: str) -> None:
    assert text(value) == shown


@pytest.mark.parametrize(
    ("octets", "shown"),
    [(None, None), (0, "0 kB"), (48 << 10, "48 kB"), (5 << 19, "2.5 MB"), (1 << 50, "1,024 TB")],
)
def test_a_size_has_a_unit(octets: int | None, shown: str | None) -> None:
    assert size(octets) == shown


def test_a_database_that_answers_needs_no_line() -> None:
    assert answer_line(Snapshot(), NOW, 5.0) is None
    assert answer_line(replace(TAKEN, taken=NOW), NOW, 5.0) is None


def test_a_database_that_does_not_answer_shows_since_when_and_how_old_the_data_are() -> None:
    lost = NoAnswer(NOW - timedelta(seconds=12), "cannot\nconnect", connected=False)
    assert answer_line(Snapshot(no_answer=lost), NOW, 5.0) == r"no answer for 12 s: cannot\nconnect"
    line = answer_line(replace(TAKEN, no_answer=lost), NOW, 5.0)
    assert line == r"no answer for 12 s; data of 1 min 10 s ago: cannot\nconnect"
    refused = replace(lost, what="permission denied", connected=True)
    line = answer_line(replace(TAKEN, no_answer=refused), NOW, 5.0)
    assert line == "no data for 12 s; data of 1 min 10 s ago: permission denied"


def test_a_look_without_an_answer_yet_shows_how_old_the_data_are() -> None:
    assert answer_line(TAKEN, NOW, 69.0) == "no answer yet; data of 1 min 10 s ago"
    assert answer_line(TAKEN, NOW, 70.0) is None


def test_a_problem_has_the_command_that_mends_it_below() -> None:
    found = [Finding("fail", "ticker", "no ticker", "pgqpy ticker run"), Finding("warn", "a", "b")]
    assert problem_lines(found) == [
        "FAIL ticker: no ticker",
        "     -> pgqpy ticker run",
        "WARN a: b",
    ]


def test_only_as_many_problems_are_shown_as_fit_with_a_line_that_tells_of_the_others() -> None:
    short, long = Finding("warn", "a", "b", "c"), Finding("fail", "a", "b " * 60, "c")
    assert fitting([], 80, 9) == 1
    assert fitting([short] * 4, 80, 9) == 4
    assert fitting([short] * 5, 80, 9) == 4  # and "1 more: press p"
    assert fitting([short] * 4, 80, 8) == 4
    assert fitting([short] * 5, 80, 8) == 3
    assert fitting([long] * 3, 80, 9) == 3
    assert fitting([long] * 4, 80, 9) == 2
    assert fitting([long] * 3, 60, 9) == 2
    assert fitting([long] * 3, 10, 9) == 1
