"""Tests that share something share a process; all others go wherever there is time."""

from __future__ import annotations

import pytest

from tests.support.groups import group_of
from tests.support.twins import turns

GROUPS = {
    "tests/spark/test_source.py::test_a_schema_projects": "spark",
    "tests/compat/test_client.py::test_events_go_in_and_come_out[sync]": "extension",
    "tests/cli/test_doctor.py::test_extension": "extension",
    "tests/guarantees/test_g7_restore.py::test_a": "tests/guarantees/test_g7_restore.py",
}


@pytest.mark.parametrize(("nodeid", "group"), GROUPS.items())
def test_tests_that_share_something_are_in_a_group(nodeid, group):
    assert group_of(nodeid) == group


@pytest.mark.parametrize(
    "nodeid",
    [
        "tests/spark/test_stream.py::test_stopping_twice_and_before_the_start_is_safe",
        "tests/cli/test_doctor.py::test_another",
    ],
)
def test_a_test_that_shares_nothing_is_alone(nodeid):
    assert group_of(nodeid) == nodeid


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
