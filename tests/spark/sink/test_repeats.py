"""An epoch that Spark repeats has the same rows, or fails."""

from __future__ import annotations

import pytest

from pgqpy.errors import StageLost
from tests.support.sqlstates import refused


def test_a_repeated_epoch_may_come_in_another_order_and_from_other_tasks(epoch, stored, caplog):
    one = epoch(1)
    one.commit(one.task("a", "b"), one.task("c"))
    late = epoch(1)
    late.commit(late.task("c", "b"), late.task(), late.task("a"))
    assert "not inserted again" in caplog.text
    assert stored() == ["a", "b", "c"]


@pytest.mark.parametrize("again", [("a",), ("a", "b", "b"), ("a", "c"), ("11", "22")])
def test_a_repeated_epoch_with_other_rows_fails(epoch, stored, again):
    first = ("12", "21") if again == ("11", "22") else ("a", "b")
    one = epoch(1)
    one.commit(one.task(*first))
    late = epoch(1)
    with pytest.raises(StageLost, match="epoch 1 was committed with other events"):
        late.commit(late.task(*again))
    assert stored() == list(first)


@pytest.mark.parametrize(
    "other", [{"type": "u", "extra1": "x"}, {}, {"extra1": "y"}, {"extra2": "x"}]
)
def test_a_repeated_epoch_with_another_type_or_column_fails(epoch, stored, other):
    columns = {"type": "t", "data": "a"}
    first = {**columns, "extra1": "x"}
    epoch(1).commit(epoch(1).row(**first))
    epoch(1).commit(epoch(1).row(**first))
    with refused("PQ019"):
        epoch(1).commit(epoch(1).row(**columns | other))
    assert stored() == ["a"]


def test_a_repeated_epoch_with_other_rows_fails_also_if_they_were_staged_before(epoch, stored):
    behind = epoch(1)
    before, ahead = behind.task("a"), epoch(1).task("b")
    epoch(1).commit(ahead)
    with refused("PQ019"):
        behind.commit(before)
    assert stored() == ["b"]


def test_a_changed_epoch_is_passed_over_where_that_is_asked_for(epoch, stored, caplog):
    epoch(1).commit(epoch(1).task("a"))
    lenient = epoch(1, failOnChangedEpoch="false")
    lenient.commit(lenient.task("b"))
    assert "not inserted again" in caplog.text
    assert stored() == ["a"]
