"""Each combination of parameters runs with one kind of client or consumer; the kinds take turns."""

from __future__ import annotations

import pytest

from tests.support.twins import turns


def test_the_kinds_take_turns_along_each_parameter():
    cells = [(kind, *each) for kind in ("sync", "async") for each in ("a1", "a2", "b1", "b2")]
    assert turns([*cells, ("async", "c", "1")]) == [
        ("sync", "a", "1"),
        ("sync", "b", "2"),
        ("async", "a", "2"),
        ("async", "b", "1"),
        ("async", "c", "1"),  # has no twin
    ]


@pytest.mark.parametrize(
    "cells",
    [[("sync",), ("async",)], [("a", "1"), ("a", "2")], [("sync", "only"), ("async", "only")]],
)
def test_a_test_without_a_matrix_of_kinds_runs_as_it_is(cells):
    assert turns(cells) == cells
