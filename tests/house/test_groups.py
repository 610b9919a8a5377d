"""Tests that share something share a process; all others go wherever there is time."""

from __future__ import annotations

import pytest

from tests.support.groups import group_of

GROUPS = {
    "tests/spark/test_source.py::test_a_schema_projects": "spark",
    "tests/compat/test_client.py::test_events_go_in_and_come_out[sync]": "extension",
    "tests/cli/test_doctor_visitor.py::test_the_doctor_fails_nothing_that_the_extension_supports": (
        "extension"
    ),
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
