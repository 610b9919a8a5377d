"""Take one mechanism of filters out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_filter_changes as changes
from tests.guarantees import test_filters as filters
from tests.guarantees import test_g7_unrepaired as unrepaired
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
    "leave the filter out": Mutation(
        "range_sql",
        "else coalesce(' and ' || pgq.filter_sql(i_filter - 'lane'), '') end",
        "else '' end",
        filters.test_consumer_gets_what_passes_and_nothing_else,
    ),
    "leave it out for workers": Mutation(
        "find_batch",
        "else (select sub_filter from pgq.registration where sub_id = r.sub_parent) end",
        "end",
        filters.test_workers_get_what_passes,
    ),
    "cut by all events": Mutation(
        "cut_range",
        "p.sub_id, null, p.sub_filter);",
        "p.sub_id, null, null);",
        filters.test_range_is_cut_into_parts_of_what_passes,
    ),
    "filter retried events too": Mutation(
        "range_sql",
        "|| coalesce(format(' or ev_owner operator(pg_catalog.=) %L', i_sub_id), '')\n"
        "        || coalesce(v_dropped, '') || ')'",
        "|| ') and (ev_owner is null or ev_owner = ' || coalesce(i_sub_id, 0) || ')'",
        filters.test_retried_event_comes_again_whatever_the_filter_is,
    ),
    "skip in ignorance of retried events": Mutation(
        "skip_ranges",
        "coalesce(p.sub_parent, p.sub_id), null, p.sub_filter",
        "null, null, p.sub_filter",
        filters.test_retried_event_comes_again_whatever_the_filter_is,
    ),
    "skip one tick too many": Mutation(
        "skip_ranges",
        "exit when v_found or",
        "exit when v_found and i > 1 or",
        filters.test_consumer_gets_what_passes_and_nothing_else,
    ),
    "skip nothing": Mutation(
        "skip_ranges",
        "c_ranges constant int := 100",
        "c_ranges constant int := 1",
        filters.test_ticks_without_an_event_are_skipped_and_not_one_more,
    ),
    "skip without a bound": Mutation(
        "skip_ranges",
        "or i = c_ranges\n",
        "\n",
        filters.test_after_a_hundred_ranges_a_batch_ends_the_call,
    ),
    "skip any number of events": Mutation(
        "skip_ranges",
        "> c_events",
        "is null",
        filters.test_after_half_a_million_events_a_batch_ends_the_call,
    ),
    "skip without the limits": Mutation(
        "skip_ranges",
        "pgq.find_next_tick(p, i_min_lag, i_min_count, i_min_interval)",
        "pgq.find_next_tick(p, null, null, null)",
        filters.test_limits_hold_for_the_events_of_the_queue,
    ),
    "do not move over what was skipped": Mutation(
        "next_batch_custom",
        "perform pgq.move_position(r.sub_id, r.pos_no, prev_tick_id, null, null,",
        "perform pgq.move_position(r.sub_id, r.pos_no, r.pos_last_tick, null, null,",
        filters.test_rotation_goes_on_where_nothing_is_for_the_consumer,
    ),
    "do not move workers over it": Mutation(
        "take_part",
        "perform pgq.move_position(p.sub_id, p.pos_no, p.pos_last_tick, null, null);",
        "return;",
        filters.test_workers_get_what_passes,
    ),
    "do not move receivers over it": Mutation(
        "open_next_range",
        "perform pgq.move_position(p.sub_id, p.pos_no, p.pos_last_tick, null, null);",
        "null;",
        filters.test_receivers_get_what_passes,
    ),
    "skip in a restored dump": Mutation(
        "skip_ranges",
        "perform pgq.check_queue(p.sub_queue, q.queue_name, q.version);",
        "null;",
        partial(
            unrepaired.test_backlog_of_a_restored_dump_is_not_skipped_until_repaired,
            restore=unrepaired.reach,
        ),
    ),
    "keep the id of an open batch": Mutation(
        "set_consumer_filter",
        "pgq.new_batch_id()",
        "p.pos_batch",
        changes.test_wider_filter_holds_for_an_open_batch_too,
    ),
    "forget what is finished of it": Mutation(
        "set_consumer_filter",
        "p.pos_pins, p.pos_from, p.pos_done",
        "p.pos_pins, null, null",
        changes.test_what_is_finished_of_an_open_batch_stays_finished,
    ),
    "take the change for progress": Mutation(
        "set_consumer_filter",
        "p.pos_leases, p.pos_moved);",
        "p.pos_leases);",
        changes.test_new_filter_is_no_progress,
    ),
    "change it under a worker": Mutation(
        "set_consumer_filter",
        "or not pgq.holder_is_dead(p.sub_id, '', null, now(), null)",
        "",
        changes.test_running_worker_keeps_its_filter,
    ),
    "change it under a lease": Mutation(
        "set_consumer_filter",
        "p.pos_batch is not null and not pgq.lease_is_over(p.pos_until, p.pos_active)\n",
        "false\n",
        changes.test_lease_keeps_its_filter,
    ),
    "compare it without the lock": Mutation(
        "set_consumer_filter",
        "select * into r from pgq.registration where sub_id = v_sub for no key update;",
        "select * into r from pgq.registration where sub_id = v_sub;",
        changes.test_of_two_workers_with_different_filters_the_second_is_refused,
    ),
    "take what the worker does not ask for": Mutation(
        "take_part",
        "perform pgq.check_asked_filter(p, i_filter);",
        "null;",
        changes.test_worker_that_asks_for_other_events_takes_and_passes_over_nothing,
    ),
    "compare what the worker asks for at the first look only": Mutation(
        "take_part",
        "if i_filter is not null and i_filter",
        "if not v_locked and i_filter",
        changes.test_filter_that_changes_while_a_worker_takes_is_seen,
    ),
    "compare what the worker wrote": Mutation(
        "check_asked_filter",
        "v_asked constant jsonb := pgq.check_filter(i_filter)",
        "v_asked constant jsonb := i_filter",
        partial(
            changes.test_worker_may_write_its_filter_in_another_way,
            has=["a", "c"],
            asks=["c", "a", "c"],
        ),
    ),
    "change it in any isolation": Mutation(
        "set_consumer_filter",
        "<> 'read committed'",
        "is null",
        partial(changes.test_filter_changes_in_read_committed_only, isolation=RR),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_missing_mechanism_is_noticed(
    db: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    expect_failure(db, MUTATIONS[name], monkeypatch)
