"""Take one mechanism of what dashboards ask out, and the test that is there for it has to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_dead_events as dead
from tests.guarantees import test_rotation_info as info
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

consumer = info.test_consumer_that_keeps_the_next_table_is_named
kept = info.test_retention_and_stages_are_named
session = info.test_session_that_holds_the_table_is_named
tables = info.test_tables_show_what_they_hold_and_how_old_it_is
due = info.test_due_is_when_the_clock_allows_the_next_rotation
marks = info.test_marks_are_few_and_even_in_time_with_the_first_and_the_last_tick
clock = info.test_marks_are_few_however_often_the_clock_was_set
cheap = info.test_marks_cost_looks_into_the_index_and_no_walk_over_the_ticks
readable = info.test_marks_leave_out_what_cannot_be_read_from
steps = dead.test_dead_events_are_walked_through_in_bounded_steps_from_the_newest
few = dead.test_step_reads_its_own_dead_events_and_no_others
MUTATIONS = {
    "wait for detached consumers": Mutation(
        "table_holder", "and p.sub_detached is null", "", consumer
    ),
    "take the fastest consumer": Mutation(
        "table_holder", "order by p.pos_last_tick,", "order by p.pos_last_tick desc,", consumer
    ),
    "name the worker": Mutation(
        "table_holder",
        "coalesce(parent.sub_consumer, p.sub_consumer)",
        "p.sub_consumer",
        info.test_workers_are_named_by_their_consumer,
    ),
    "count released stages": Mutation("table_holder", "stage_released_by is null ", "true ", kept),
    "count stages of other tables": Mutation("table_holder", "'and exists (", "'or exists (", kept),
    "forget the retention": Mutation("table_holder", "if v_tick is not null and not", "if", kept),
    "forget the ticker": Mutation("table_holder", "'ticker')", "'consumer')", kept),
    "forget locks": Mutation("table_holder", "l.locktype = 'relation'", "false", session),
    "fail for a locked table": Mutation(
        "get_rotation_info", "when lock_not_available or", "when", session
    ),
    "count its own locks": Mutation(
        "table_holder", "and l.pid is distinct from pg_backend_pid()", "", session
    ),
    "confuse the tables": Mutation(
        "get_rotation_info", "(q.queue_cur_table + 1)", "(q.queue_cur_table + 2)", tables
    ),
    "show the tick before": Mutation("seen_time", "v_end <= i_txid", "v_end < i_txid", tables),
    "show the last tick": Mutation("seen_time", "v_high := v_half;", "v_low := v_high;", tables),
    "search beyond the last tick": Mutation(
        "seen_time",
        "v_high bigint := i_last",
        "v_high bigint := i_last + 1",
        info.test_tick_with_the_largest_id_is_found,
    ),
    "show a tick that does not see it": Mutation(
        "seen_time",
        "where txid_snapshot_xmax(tick_snapshot) > i_txid",
        "where true",
        info.test_tick_with_the_largest_id_is_found,
    ),
    "trust a clock that was ahead": Mutation(
        "get_rotation_info",
        "when q.queue_switch_time > clock_timestamp() then",
        "when false then",
        due,
    ),
    "forget how long events are kept": Mutation(
        "get_rotation_info", "+ q.queue_rotates_after", "+ q.queue_rotation_period", due
    ),
    "split gaps that are short": Mutation(
        "get_tick_marks", "and length > v_wide", "and next_id - id > 1000", marks
    ),
    "mark without a bound": Mutation(
        "get_tick_marks", "limit i_marks - cardinality(v_ids)", "", clock
    ),
    "look at one half only": Mutation(
        "get_tick_marks", "t.tick_id > id and t.tick_id < middle", "false", readable
    ),
    "walk over the ticks": Mutation(
        "get_tick_marks",
        "t.tick_id >= middle and t.tick_id < next_id",
        "t.tick_id + 0 >= middle",
        cheap,
    ),
    "mark what cannot be read": Mutation(
        "get_tick_marks", "t.tick_id >= q.queue_low_tick", "true", readable
    ),
    "step from the oldest": Mutation(
        "get_dead_event_bounds", "order by ev_id desc", "order by ev_id", steps
    ),
    "step over others' events": Mutation(
        "get_dead_event_bounds", "ev_owner = v_sub", "true", steps
    ),
    "end too early": Mutation(
        "get_dead_event_bounds", "ev_id < first_id", "ev_id < first_id - 3", steps
    ),
    "list what is before the step": Mutation("get_dead_events", "i_after is null", "true", steps),
    "list what is after the step": Mutation("get_dead_events", "i_before is null", "true", steps),
    "count what is before the step": Mutation(
        "get_dead_event_counts", "i_after is null", "true", few
    ),
    "count what is after the step": Mutation(
        "get_dead_event_counts", "i_before is null", "true", steps
    ),
    "filter all that are older": Mutation("get_dead_events", "i_after is null", "true", few),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
