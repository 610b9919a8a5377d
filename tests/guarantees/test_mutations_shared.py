"""Take one mechanism of shared consumers out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_shared as shared
from tests.guarantees import test_shared_leases as leases
from tests.guarantees import test_shared_parts as parts
from tests.guarantees import test_shared_takeover as takeover
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import RR
from tests.guarantees.workers import AWAY, ENDED, STEPPED_BACK

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

dies = partial(
    takeover.test_holder_is_dead_without_lock_lease_or_sign_of_life,
    tokens=True,
    lock=False,
    lease=None,
    gone=None,
    dead=None,
    taken=True,
)
MUTATIONS = {
    "count consumers without their workers": Mutation(
        "slowest_tick",
        "and sub_detached is null)",
        "and sub_detached is null and sub_parent is null)",
        shared.test_range_of_a_worker_holds_its_events_against_rotation,
    ),
    "take over under the old id": Mutation(
        "take_range",
        "d.pos_next_tick, i_batch,",
        "d.pos_next_tick, d.pos_batch,",
        takeover.test_range_of_a_dead_worker_goes_on_with_what_is_open_of_it,
    ),
    "leave the range with the dead too": Mutation(
        "take_range",
        "perform pgq.move_position(d.sub_id, d.pos_no, null, null, null);",
        "null;",
        takeover.test_late_worker_changes_nothing,
    ),
    "forget what was finished of it": Mutation(
        "take_range",
        "x_from => d.pos_from, x_done => d.pos_done,",
        "",
        takeover.test_range_of_a_dead_worker_goes_on_with_what_is_open_of_it,
    ),
    "count an end in order as unclean": Mutation(
        "count_end",
        "if d.pos_holder is not null then",
        "if true then",
        takeover.test_released_range_is_taken_at_once_and_counts_as_no_unclean_end,
    ),
    "count no unclean end": Mutation(
        "count_end",
        "if d.pos_holder is not null then",
        "if false then",
        takeover.test_released_range_is_taken_at_once_and_counts_as_no_unclean_end,
    ),
    "keep a released range": Mutation(
        "end_run",
        "p.pos_tries, clock_timestamp(),",
        "p.pos_tries, null,",
        takeover.test_released_range_is_taken_at_once_and_counts_as_no_unclean_end,
    ),
    "claim without the consumer's lock": Mutation(
        "take_part",
        "where sub_id = p.sub_id for no key update",
        "where sub_id = p.sub_id",
        shared.test_two_workers_that_ask_at_once_get_different_ranges,
    ),
    "wait for a session that finishes its batch": Mutation(
        "lock_free_range",
        "for no key update skip locked",
        "for no key update",
        takeover.test_batch_that_is_being_finished_is_not_taken_over,
    ),
    "look at the first dead worker only": Mutation(
        "lock_free_range",
        "order by p.sub_id",
        "order by p.sub_id limit 1",
        takeover.test_range_that_another_session_locks_does_not_hide_the_next_dead_one,
    ),
    "claim without a lock on the dead worker": Mutation(
        "take_part",
        "d := pgq.lock_free_range(p.sub_id, i_dead_interval);",
        "null;",
        takeover.test_batch_that_is_being_finished_is_not_taken_over,
    ),
    "wait for a stopped run of one's own": Mutation(
        "take_part",
        "where sub_id = w.sub_id for no key update skip locked",
        "where sub_id = w.sub_id for no key update",
        shared.test_stopped_worker_stops_no_other,
    ),
    "take from the living": Mutation(
        "holder_is_dead",
        "when pg_try_advisory_lock(i_class, i_key) then pg_advisory_unlock(i_class, i_key)",
        "when true then true",
        partial(dies, lock=True, dead="1 minute", taken=False),
    ),
    "keep the lock that was tried": Mutation(
        "holder_is_dead",
        "then pg_advisory_unlock(i_class, i_key)",
        "then true",
        takeover.test_released_lock_can_be_taken_again,
    ),
    "wait for the lock of a stopped process": Mutation(
        "holder_is_dead",
        "i_active > i_dead_interval",
        "i_active > null",
        partial(dies, lock=True, gone=AWAY, dead="1 minute"),
    ),
    "wait for a lease from before the clock was stepped back": Mutation(
        "lease_is_over",
        "isfinite(i_until) and",
        "false and",
        partial(dies, lock=True, lease="1 minute", gone=STEPPED_BACK),
    ),
    "wait for a sign of life from before it": Mutation(
        "holder_is_dead",
        "when i_active - clock_timestamp() > i_dead_interval then true",
        "",
        partial(dies, lock=True, gone=STEPPED_BACK, dead="1 minute"),
    ),
    "extend a lease from before it": Mutation(
        "touch_batch",
        "case when pos_active > clock_timestamp()",
        "case when false",
        partial(takeover.test_sign_of_life_keeps_a_range, gone=STEPPED_BACK, lease="1 minute"),
    ),
    "forget leases": Mutation(
        "holder_is_dead",
        "when i_until is not null then pgq.lease_is_over(i_until, i_active)",
        "",
        partial(dies, lock=True, lease="1 minute", gone=ENDED),
    ),
    "lease for years": Mutation(
        "lease_end",
        "if i_lease > '1 day' then",
        "if false then",
        partial(leases.test_lease_of_more_than_a_day_is_refused, lease="25 hours"),
    ),
    "take from clients of PGQ": Mutation(
        "holder_is_dead",
        "when i_holder is null then false",
        "",
        partial(dies, tokens=False, gone=AWAY, taken=False),
    ),
    "give no sign of life": Mutation(
        "touch_batch",
        "set pos_active = clock_timestamp(),",
        "set pos_active = pos_active,",
        partial(takeover.test_sign_of_life_keeps_a_range, gone=AWAY, lease=None),
    ),
    "let two runs have one batch": Mutation(
        "resume_part",
        "elsif w.pos_holder is not null and w.pos_holder is distinct from i_holder then",
        "elsif false then",
        takeover.test_range_of_a_subconsumer_goes_to_its_next_run_under_a_new_id,
    ),
    "take one's own range from the living": Mutation(
        "resume_part",
        "if not pgq.holder_is_dead(",
        "if false and not pgq.holder_is_dead(",
        takeover.test_range_of_a_subconsumer_goes_to_its_next_run_under_a_new_id,
    ),
    "give events to the worker": Mutation(
        "find_batch",
        "coalesce(r.sub_parent, r.sub_id)",
        "r.sub_id",
        shared.test_retried_and_dead_events_belong_to_the_consumer,
    ),
    "set events aside for the worker": Mutation(
        "event_retry_raw",
        "coalesce(s.sub_parent, s.sub_id)",
        "s.sub_id",
        shared.test_retried_and_dead_events_belong_to_the_consumer,
    ),
    "leave a finished worker at the end of its range": Mutation(
        "finish_batch",
        "and sub_parent is not null and sub_mode is null)",
        "and false)",
        shared.test_finished_worker_holds_no_tick,
    ),
    "move a consumer without its workers": Mutation(
        "register_consumer_at",
        "where sub_parent = r.sub_id and pos_batch is not null",
        "where false",
        shared.test_consumer_that_is_moved_takes_the_ranges_of_its_workers_away,
    ),
    "leave without waiting for workers": Mutation(
        "unregister_consumer",
        "where sub_parent = v_sub order by sub_id for update",
        "where sub_parent = v_sub",
        shared.test_consumer_leaves_with_its_workers,
    ),
    "read beyond the part": Mutation(
        "batch_event_sql",
        "coalesce(b.pos_to, 9223372036854775807)",
        "9223372036854775807",
        parts.test_a_large_range_is_shared_by_its_workers,
    ),
    "forget where the part ends when it is taken over": Mutation(
        "take_range", ", x_to => d.pos_to", "", parts.test_part_of_a_dead_worker_stays_a_part
    ),
    "forget where the part ends when it has progressed": Mutation(
        "finish_part", ", x_to => p.pos_to", "", parts.test_part_of_a_dead_worker_stays_a_part
    ),
    "forget where the part ends when a run begins": Mutation(
        "begin_run",
        ", x_to => p.pos_to",
        "",
        partial(parts.test_part_stays_a_part_whatever_its_run_tells, function="begin_run"),
    ),
    "finish beyond the part": Mutation(
        "finish_part",
        "if v_last > p.pos_to then",
        "if false then",
        parts.test_event_beyond_its_part_is_not_finished,
    ),
    "leave a range with its first part": Mutation(
        "take_part",
        "p.pos_no, p.pos_last_tick, v_next, null,",
        "p.pos_no, v_next, v_next, null,",
        parts.test_parts_that_are_left_hold_their_events,
    ),
    "cut a range again": Mutation(
        "take_part",
        "coalesce(p.pos_cuts, pgq.cut_range(p, v_next, i_wanted))",
        "pgq.cut_range(p, v_next, i_wanted)",
        parts.test_a_large_range_is_shared_by_its_workers,
    ),
    "count workers for every range": Mutation(
        "take_part",
        "if v_cuts is not null then",
        "if true then",
        parts.test_workers_and_events_are_counted_only_for_a_range_that_may_be_cut,
    ),
    "believe the sequence": Mutation(
        "cut_range",
        "if v_count <= i_wanted then",
        "if e.tick_event_seq - s.tick_event_seq <= i_wanted then",
        parts.test_a_large_transaction_that_took_its_ids_before_the_range_is_cut,
    ),
    "believe the sequence about stages": Mutation(
        "cut_range",
        "if v_count <= i_wanted then",
        "if e.tick_event_seq - s.tick_event_seq <= i_wanted then",
        parts.test_a_large_stage_is_cut,
    ),
    "count on ids that come twice": Mutation(
        "cut_range",
        "select distinct cut",
        "select cut - 1",
        parts.test_a_large_range_is_shared_by_its_workers,
    ),
    "compact cuts away": Mutation(
        "compact_positions",
        "pos_to, pos_cuts, pos_died,",
        "pos_to, null, pos_died,",
        parts.test_parts_that_are_left_hold_their_events,
    ),
    "change the mode with parts left": Mutation(
        "check_idle",
        "if r.pos_next_tick is not null",
        "if r.pos_batch is not null",
        parts.test_a_consumer_with_parts_left_keeps_its_mode_and_may_be_moved,
    ),
    "share with workers that are not there": Mutation(
        "count_live_workers",
        "1 + count(*)",
        "2 + count(*)",
        parts.test_a_large_range_is_shared_by_its_workers,
    ),
    "take a range in any isolation": Mutation(
        "take_part",
        "<> 'read committed'",
        "is null",
        partial(shared.test_old_snapshot_takes_no_range, isolation=RR),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
