"""Mutations of stalled consumers: without a mechanism, its test fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_stalled as stalled
from tests.guarantees import test_stalled_races as races
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
    "wait for the clock": Mutation(
        "is_rotation_due",
        "or q.queue_switch_time > clock_timestamp()",
        "",
        stalled.test_rotation_of_a_clock_that_was_ahead_makes_no_consumer_wait,
    ),
    "count detached consumers": Mutation(
        "slowest_tick",
        "and sub_detached is null",
        "",
        stalled.test_what_is_gone_is_told_and_the_consumer_goes_on_from_the_earliest_tick,
    ),
    "finish what a detached consumer read": Mutation(
        "lock_batch",
        "or v_detached is not null then",
        "then",
        races.test_batch_is_not_finished_behind_a_detach,
    ),
    "let a detached consumer read": Mutation(
        "find_batch",
        "r.sub_detached is null and",
        "",
        stalled.test_stalled_consumer_is_detached_and_goes_on_if_nothing_is_gone,
    ),
    "open batches of a detached consumer": Mutation(
        "next_batch_custom",
        "elsif r.sub_detached is not null then",
        "elsif false then",
        races.test_next_batch_that_waited_for_a_detach_is_refused,
    ),
    "give ranges of a detached consumer": Mutation(
        "find_shared",
        "elsif p.sub_detached is not null then",
        "elsif false then",
        stalled.test_workers_are_detached_with_their_consumer,
    ),
    "give lanes of a detached consumer": Mutation(
        "find_lanes",
        "elsif r.sub_detached is not null then",
        "elsif false then",
        stalled.test_lanes_are_detached_with_their_consumer,
    ),
    "move a lane over what is truncated": Mutation(
        "open_lane",
        "or s.sub_detached is not null",
        "",
        races.test_run_that_looks_at_a_lane_does_not_move_it_behind_a_detach,
    ),
    "pin ticks of a detached consumer": Mutation(
        "lock_subscription",
        "if v_detached is not null and not i_run then",
        "if false then",
        stalled.test_readers_of_ticks_are_refused,
    ),
    "make lanes of a detached consumer": Mutation(
        "set_lanes",
        "elsif p.sub_detached is not null then",
        "elsif false then",
        stalled.test_lanes_are_detached_with_their_consumer,
    ),
    "count time without a ticker": Mutation(
        "ticked_time",
        "least(greatest(later - tick_time, '0'), c_gap)",
        "later - tick_time",
        stalled.test_time_without_a_ticker_does_not_count,
    ),
    "detach by size at once": Mutation(
        "maint_stalled",
        "v_passed >= q.queue_rotation_period",
        "true",
        stalled.test_time_without_a_ticker_does_not_count,
    ),
    "detach though another one keeps the table": Mutation(
        "maint_stalled",
        "continue when pgq.keeps_table(q, v_rest) is not false;",
        "",
        stalled.test_consumer_stays_while_another_one_keeps_the_table_too,
    ),
    "detach each by itself only": Mutation(
        "maint_stalled",
        "and coalesce(sub_parent, sub_id) <> all (v_stalled)",
        "",
        stalled.test_stalled_consumer_is_detached_and_goes_on_if_nothing_is_gone,
    ),
    "forget the retention": Mutation(
        "maint_stalled",
        "least(pgq.retained_tick(q), coalesce(",
        "least(null::bigint, coalesce(",
        stalled.test_consumer_that_rotation_does_not_wait_for_stays,
    ),
    "detach who is past the table": Mutation(
        "maint_stalled",
        "continue when pgq.keeps_table(q, r.tick_id) is not true;",
        "",
        stalled.test_consumer_that_rotation_does_not_wait_for_stays,
    ),
    "detach who has moved meanwhile": Mutation(
        "detach_consumer",
        "if i_tick is distinct from (",
        "if null is not null and i_tick is distinct from (",
        races.test_consumer_that_went_on_meanwhile_is_not_detached,
    ),
    "let retries go on": Mutation(
        "detach_consumer",
        "update pgq.retry_queue set ev_retry_after = 'infinity' where ev_owner = i_sub;",
        "",
        stalled.test_retried_events_wait_for_the_consumer,
    ),
    "let new retries go on": Mutation(
        "retry_time",
        "then 'infinity' else",
        "then i_after else",
        stalled.test_retried_events_wait_for_the_consumer,
    ),
    "wait for infinity": Mutation(
        "move_delayed_events",
        "and ev_retry_after < 'infinity'",
        "",
        stalled.test_retried_events_wait_for_the_consumer,
    ),
    "reattach what the mover has looked at": Mutation(
        "reattach_consumer",
        ", ev_txid = txid_current()",
        "",
        races.test_mover_that_looked_before_a_reattach_finds_what_is_due,
    ),
    "reattach where events are gone": Mutation(
        "reattach_consumer",
        "if v_tick < v_first.tick_id and i_from_earliest is not true then",
        "if false then",
        stalled.test_what_is_gone_is_told_and_the_consumer_goes_on_from_the_earliest_tick,
    ),
    "reattach beside a rotation": Mutation(
        "reattach_consumer",
        "where queue_name = i_queue_name for key share;",
        "where queue_name = i_queue_name;",
        races.test_reattach_that_waited_for_a_rotation_tells_what_is_gone,
    ),
    "bring lost ticks back": Mutation(
        "repair_queue",
        "and t.tick_id >= q.queue_low_tick",
        "",
        stalled.test_repair_does_not_make_a_detached_consumer_live,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
