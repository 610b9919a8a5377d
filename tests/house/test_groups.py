"""Tests that need Spark share a process; all others go wherever there is time."""

from __future__ import annotations

from tests.support.groups import group_of


def test_who_needs_the_session_is_in_the_group():
    assert group_of("tests/spark/test_source.py::test_a_schema_projects") == "spark"


def test_who_does_not_is_alone():
    nodeid = "tests/spark/test_stream.py::test_stopping_twice_and_before_the_start_is_safe"
    assert group_of(nodeid) == nodeid
