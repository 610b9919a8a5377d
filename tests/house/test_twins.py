"""Each combination of parameters runs with one kind of client or consumer; the kinds take turns."""

from __future__ import annotations

from tests.support.tree import ROOT
from tests.support.twins import FACES, turns

TWINS = [("sync",), ("async",)]


def test_the_kinds_take_turns_along_each_parameter():
    cells = [(kind, *each) for kind in ("sync", "async") for each in ("a1", "a2", "b1", "b2")]
    assert turns([*cells, ("async", "c", "1")], "test_a") == [
        ("sync", "a", "1"),
        ("sync", "b", "2"),
        ("async", "a", "2"),
        ("async", "b", "1"),
        ("async", "c", "1"),  # has no twin
    ]


def test_each_kind_runs_some_of_the_tests_without_further_parameters():
    assert [turns(TWINS, name) for name in ("test_a", "test_d")] == [[("sync",)], [("async",)]]


def test_the_faces_run_with_both_kinds():
    assert [turns(TWINS, f"{face}::test_a") for face in FACES] == [TWINS] * len(FACES)
    assert all((ROOT / face).exists() for face in FACES)


def test_a_test_without_kinds_runs_as_it_is():
    cells = [("a", "1"), ("a", "2")]
    assert turns(cells, "test_a") == cells
