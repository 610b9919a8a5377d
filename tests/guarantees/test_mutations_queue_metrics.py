"""Take one mechanism of get_queue_metrics out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_queue_metrics as metrics
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

ages = metrics.test_ages_are_those_of_the_ticks_that_count_the_first_and_the_last_event
near = metrics.test_tick_ids_near_the_end_of_bigint_are_searched_as_others
damaged = metrics.test_damaged_tick_or_locked_queue_leaves_the_other_figures_and_queues

MUTATIONS = {
    "count what rotation took": Mutation(
        "get_queue_metrics",
        "tick_id >= q.queue_low_tick",
        "tick_id >= 0",
        metrics.test_events_that_rotation_took_do_not_count,
    ),
    "take the tick before the event": Mutation(
        "counting_time", "if v_seq < i_event_id", "if v_seq <= i_event_id", ages
    ),
    "take the last tick": Mutation(
        "counting_time", "            v_high := v_half;", "            v_low := v_high;", ages
    ),
    "walk over the ticks": Mutation(
        "counting_time",
        "v_half := v_low + (v_high - v_low) / 2",
        "v_half := v_low",
        metrics.test_it_reads_no_event_keeps_no_table_locked_and_walks_over_no_ticks,
    ),
    "add the ends of the range": Mutation(
        "counting_time",
        "v_low + (v_high - v_low) / 2",
        "(v_low + v_high) / 2",
        partial(near, last=2**62 + 1),
    ),
    "search beyond the last tick": Mutation(
        "counting_time",
        "v_high bigint := i_last",
        "v_high bigint := i_last + 1",
        partial(near, last=2**63 - 1),
    ),
    "take a tick that does not count it": Mutation(
        "counting_time", "where tick_event_seq >= i_event_id", "where true", ages
    ),
    "add to the last event id": Mutation(
        "get_queue_metrics",
        "least(first.tick_event_seq, 9223372036854775806)",
        "first.tick_event_seq",
        metrics.test_event_ids_near_the_end_of_bigint_break_no_queue,
    ),
    "subtract a damaged time": Mutation(
        "get_queue_metrics", "case when isfinite(oldest) then", "case when true then", damaged
    ),
    "fail for a locked table": Mutation(
        "event_bytes", "when others then", "when division_by_zero then", damaged
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
