"""Take one mechanism of lanes out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_lanes as lanes
from tests.guarantees import test_lanes_change as change
from tests.guarantees import test_lanes_filters as filters
from tests.guarantees import test_lanes_modes as modes
from tests.guarantees import test_lanes_repair as repair
from tests.guarantees import test_lanes_takeover as takeover
from tests.guarantees import test_lanes_ticks as ticks
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.workers import ENDED

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

CLAIM = "where sub_id = v.sub_id for no key update skip locked"
ORDER = partial(change.test_order_is_kept_with_batches_open, before=4, after=3)
BARRIER = """or s.sub_stop_tick is null and exists (
                select from pgq.registration
                 where sub_parent = v.sub_parent and sub_stop_tick is not null)
"""
SEEN = "and (sub_stop_tick is not null or not v_changing)\n"


def without_the_barrier(db: Database) -> None:
    """Take the second guard out too: a run that looks sees the change, except in a race."""
    definition = "select pg_get_functiondef('pgq.open_lane'::regproc)"
    source = db.main.one(definition)
    assert BARRIER in source
    db.main.run(source.replace(BARRIER, "\n"))
    ORDER(db)


MUTATIONS = {
    "give all events to each lane": Mutation(
        "range_sql",
        "|| coalesce(' and ' || pgq.lane_sql(i_filter -> 'lane'), '');",
        ";",
        lanes.test_each_event_is_in_one_lane_and_each_key_too,
    ),
    "give retried events to each lane": Mutation(
        "range_sql",
        "|| coalesce(' and ' || pgq.lane_sql(i_filter -> 'lane'), '');",
        "|| coalesce(' and (ev_owner > 0 or ' || pgq.lane_sql(i_filter -> 'lane') || ')', '');",
        ticks.test_retried_event_comes_in_the_lane_of_its_key_whatever_the_filter_is,
    ),
    "give events without a key to nobody": Mutation(
        "lane_sql", "ev_id) '", "null) '", lanes.test_events_without_a_key_are_spread
    ),
    "take from the living": Mutation(
        "run_is_dead",
        "select pgq.holder_is_dead(",
        "select true or pgq.holder_is_dead(",
        lanes.test_lane_has_one_batch_open_at_a_time,
    ),
    "take from a lease": Mutation(
        "run_is_dead",
        "s.pos_until,",
        "null,",
        partial(
            takeover.test_run_is_dead_without_lock_lease_or_sign_of_life,
            lock=True,
            lease="1 minute",
            gone=ENDED,
            dead=None,
            taken=True,
        ),
    ),
    "look at the holder before the lock only": Mutation(
        "open_lane",
        "or s.pos_batch is not null and not pgq.run_is_dead(s, i_dead_interval) then",
        "then",
        takeover.test_run_that_died_before_the_lock_was_seen_is_looked_at_again,
    ),
    "read the ticks before a repair has ended": Mutation(
        "take_lane",
        "perform pgq.lock_event_tables(i_queue_name);",
        "null;",
        partial(repair.test_look_that_waits_for_a_repair_skips_no_event, looked=True),
    ),
    "open what another run has opened": Mutation(
        "open_lane",
        "s.pos_no is distinct from v.pos_no",
        "false",
        takeover.test_of_two_runs_that_open_a_batch_one_has_it,
    ),
    "take over what another run has taken over": Mutation(
        "open_lane",
        "s.pos_no is distinct from v.pos_no",
        "false",
        takeover.test_of_two_runs_that_take_a_lane_over_one_has_it,
    ),
    "wait for a lane that is locked": Mutation(
        "open_lane",
        CLAIM,
        CLAIM.removesuffix(" skip locked"),
        takeover.test_locked_lane_is_skipped_and_not_waited_for,
    ),
    "claim without a lock": Mutation(
        "open_lane",
        CLAIM,
        CLAIM.removesuffix(" for no key update skip locked"),
        takeover.test_locked_lane_is_skipped_and_not_waited_for,
    ),
    "wait for one lane with the locks of others": Mutation(
        "set_lanes",
        "perform pgq.lock_consumers(p.sub_queue, v_sub);",
        "",
        change.test_change_that_waits_for_a_lane_keeps_no_other_from_going_on,
    ),
    "let the dead finish": Mutation(
        "open_lane",
        "pgq.take_range(s, s, pgq.new_batch_id()",
        "pgq.take_range(s, s, s.pos_batch",
        takeover.test_late_finish_of_a_dead_run_changes_nothing,
    ),
    "skip by another filter": Mutation(
        "open_lane",
        "or s.sub_filter is distinct from v.sub_filter ",
        "",
        partial(filters.test_filter_changed_between_two_looks_passes_over_nothing, back=True),
    ),
    "open with a filter that nobody asked for": Mutation(
        "open_lane",
        "or s.sub_filter - 'lane' is distinct from coalesce(i_filter, '{}')",
        "",
        partial(filters.test_filter_changed_between_two_looks_passes_over_nothing, back=False),
    ),
    "give no sign of life": Mutation(
        "take_lane",
        "pgq.touch_batch(s.pos_batch, i_lease) = 0",
        "false",
        partial(takeover.test_run_that_asks_again_has_its_batch_longer, gone=ENDED, lease="1 h"),
    ),
    "count the living as dead": Mutation(
        "take_lane",
        "perform pgq.uncount_end(p.sub_id, i_holder);",
        "null;",
        takeover.test_run_that_comes_back_is_not_counted_as_dead,
    ),
    "lose the position of a lane": Mutation(
        "finish_batch",
        "and sub_parent is not null and sub_mode is null)",
        "and sub_parent is not null)",
        lanes.test_lane_has_one_batch_open_at_a_time,
    ),
    "begin new lanes beside old ones": Mutation("take_lane", SEEN, "\n", without_the_barrier),
    "go on behind the stop tick": Mutation(
        "find_lane_tick", "least(v_next, s.sub_stop_tick)", "v_next", ORDER
    ),
    "open empty batches at the stop tick": Mutation(
        "find_next_tick",
        "when p.pos_last_tick >= p.sub_stop_tick then null",
        "when false then null",
        change.test_last_old_lane_and_the_first_new_one_are_one_call,
    ),
    "let a change wait for events": Mutation(
        "find_next_tick",
        "least(n.next_tick_id, p.sub_stop_tick)",
        "n.next_tick_id",
        ticks.test_limits_do_not_keep_a_change_waiting,
    ),
    "stop before open batches": Mutation(
        "set_lanes", "max(coalesce(pos_next_tick, pos_last_tick))", "max(pos_last_tick)", ORDER
    ),
    "stop at the slowest lane": Mutation(
        "set_lanes", "max(coalesce(pos_next_tick, pos_last_tick))", "min(pos_last_tick)", ORDER
    ),
    "end lanes that are behind": Mutation(
        "end_lanes",
        "pos_last_tick < sub_stop_tick or sub_stop_tick is not null and pos_batch > 0",
        "false",
        change.test_change_during_a_change_is_refused,
    ),
    "end a lane with a parked batch": Mutation(
        "end_lanes",
        "pos_last_tick < sub_stop_tick or sub_stop_tick is not null and pos_batch > 0",
        "pos_last_tick < sub_stop_tick",
        change.test_parked_batch_of_an_old_lane_keeps_the_change_open,
    ),
    "open a lane that ends": Mutation(
        "open_lane",
        "or s.sub_stop_tick is distinct from v.sub_stop_tick",
        "",
        change.test_lanes_changed_between_look_and_lock_are_left,
    ),
    "wait for the consumer's lock": Mutation(
        "end_lanes",
        "where sub_id = i_parent for no key update skip locked",
        "where sub_id = i_parent for no key update",
        change.test_end_of_the_old_lanes_waits_for_no_lock,
    ),
    "leave the new lanes to the next call": Mutation(
        "take_lane",
        "and v_changing = v_before",
        "",
        change.test_last_old_lane_and_the_first_new_one_are_one_call,
    ),
    "leave done lanes to the next run": Mutation(
        "set_lanes",
        "perform pgq.end_lanes(v_sub);",
        "",
        change.test_change_that_nobody_ran_after_is_done_with_the_next_one,
    ),
    "leave done lanes to the next run before a mode": Mutation(
        "set_consumer_mode",
        "perform pgq.end_lanes(v_sub);",
        "",
        modes.test_one_lane_goes_back_without_a_run_after_the_change,
    ),
    "forget where one lane was": Mutation(
        "set_consumer_mode",
        "perform pgq.move_position(v_sub, pos_no, lane.pos_last_tick, null, null)",
        "perform pgq.move_position(v_sub, pos_no, 1, null, null)",
        partial(modes.test_consumer_with_one_lane_goes_back, mode="plain"),
    ),
    "divide a consumer that runs": Mutation(
        "set_lanes",
        "perform pgq.check_idle(v_sub, i_queue_name, i_consumer_name);",
        "",
        modes.test_consumer_that_runs_gets_no_lanes,
    ),
    "begin at the last tick": Mutation(
        "set_lanes",
        "select pos_last_tick into v_tick from pgq.current_position where sub_id = v_sub;",
        "select max(tick_id) into v_tick from pgq.tick;",
        partial(modes.test_lanes_begin_where_the_consumer_was, before=modes.plain),
    ),
    "make new lanes without the filter": Mutation(
        "add_lanes",
        "coalesce(p.sub_filter, '{}') ||",
        "",
        modes.test_filter_holds_for_all_lanes_and_new_ones,
    ),
    "change the filter of the consumer only": Mutation(
        "set_consumer_filter",
        "where sub_parent = v_sub and sub_mode = 'lane';",
        "where sub_parent = v_sub and sub_mode = 'lanes';",
        modes.test_filter_holds_for_all_lanes_and_new_ones,
    ),
    "read by another hash": Mutation(
        "range_sql",
        "(i_filter -> 'lane' ->> 3)::bigint <> pgq.key_hash()",
        "false",
        ticks.test_other_hash_stops_the_lanes_until_they_are_moved,
    ),
    "change lanes by another hash": Mutation(
        "set_lanes",
        "(r.sub_filter -> 'lane' ->> 3)::bigint <> pgq.key_hash()",
        "false",
        ticks.test_other_hash_stops_the_lanes_until_they_are_moved,
    ),
    "keep the old hash": Mutation(
        "move_lanes",
        "to_jsonb(pgq.key_hash())",
        "sub_filter -> 'lane' -> 3",
        ticks.test_other_hash_stops_the_lanes_until_they_are_moved,
    ),
    "move old lanes too": Mutation(
        "move_lanes",
        "if r.sub_stop_tick is null then",
        "if true then",
        partial(ticks.test_moved_consumer_moves_all_its_lanes, changing=True),
    ),
    "merge any number of ticks": Mutation(
        "find_lane_tick",
        "c_ticks constant int := 100",
        "c_ticks constant int := 1000",
        ticks.test_merged_ticks_are_a_hundred_at_most,
    ),
    "merge any number of events": Mutation(
        "find_lane_tick",
        "<= v_most",
        "is not null",
        ticks.test_ticks_are_merged_while_a_lane_is_behind,
    ),
    "merge ticks that are too young": Mutation(
        "find_lane_tick",
        ">= extract(epoch from i_min_lag)",
        "is not null",
        ticks.test_limits_hold_for_the_events_of_the_queue,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_missing_mechanism_is_noticed(
    db: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    expect_failure(db, MUTATIONS[name], monkeypatch)
