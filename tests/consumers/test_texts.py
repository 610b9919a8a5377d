"""How exceptions are told, whatever their classes do."""

from __future__ import annotations

import logging

import pytest

from pgqpy.texts import LONGEST, TRACEBACK_LINES, describe, noun, traceback_text
from pgqpy.watch import Count
from tests.support.errors import Mute, raised


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (ValueError(), "ValueError"),
        (ValueError("a\nb\r\tc\0d"), r"ValueError: a\nb\r\tc\x00d"),
        (ValueError("\x1b[2Jé\ud800\u202e"), r"ValueError: \x1b[2Jé\ud800\u202e"),
        (Mute(), "Mute: (its text cannot be had: str() raises LookupError)"),
    ],
)
def test_an_exception_is_one_printable_line(error, told):
    assert describe(error) == told


@pytest.mark.parametrize("letter", ["x", "\0"])
def test_a_long_text_is_cut(letter):
    told = describe(ValueError(letter * 1_000_000))
    assert len(told) == LONGEST
    assert told.endswith("…")


def test_a_traceback_is_bounded_and_none_of_its_lines_passes_for_a_line_of_the_log():
    told = traceback_text(raised(ValueError("x" * 1_000_000)))
    assert len(told) < 3000
    told = traceback_text(raised(ValueError("a\n2026-01-01 ERROR forged\x1b[2J")))
    assert told.startswith("Traceback (most recent call last):\n  File")
    assert "ValueError: a\n    2026-01-01 ERROR forged\\x1b[2J" in told
    told = traceback_text(raised(ValueError("\n" * 1_000_000)))
    assert told.count("\n") <= TRACEBACK_LINES
    assert "Mute" in traceback_text(raised(Mute()))


def test_the_log_has_the_bounded_traceback_and_the_exception_itself(caplog):
    error = raised(ValueError("a\nb"))
    logging.getLogger("pgqpy.consumers").error("failed", exc_info=error)
    (record,) = caplog.records
    assert record.exc_info[1] is error
    assert "\n    b" in caplog.text


def test_a_noun_is_singular_after_one_only():
    assert [noun(count, "event") for count in (0, 1, 2, None)] == (
        ["events", "event", "events", "events"]
    )
    counts = [Count(1), Count(1, more=True), Count(10_000)]
    assert [noun(count, "entry", "entries") for count in counts] == ["entry", "entries", "entries"]
