"""Take one mechanism of messages out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_messages as messages
from tests.guarantees import test_messages_leases as leases
from tests.guarantees import test_messages_workers as beside_workers
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
    "lease without the consumer's lock": Mutation(
        "receive",
        "where sub_id = p.sub_id for no key update",
        "where sub_id = p.sub_id",
        messages.test_receivers_that_ask_at_once_get_different_events,
    ),
    "lease in any isolation": Mutation(
        "receive",
        "<> 'read committed'",
        "is null",
        partial(messages.test_old_snapshot_takes_no_lease, isolation=RR),
    ),
    "count no lease that ended": Mutation(
        "count_end",
        "pgq.add_tries(d.pos_leases, 1)",
        "null",
        messages.test_ended_lease_goes_on_with_what_is_not_done,
    ),
    "count a worker's end against the event after the leased ones": Mutation(
        "lease_events",
        "x_until => '-infinity',",
        "x_until => '-infinity', x_tries => d.pos_tries,",
        beside_workers.test_event_that_a_receiver_leased_is_not_counted_against_the_next_one,
    ),
    "stop at an empty range": Mutation(
        "receive",
        "perform pgq.move_position(d.sub_id, d.pos_no, null, null, null);",
        "exit;",
        messages.test_empty_ranges_are_passed_over,
    ),
    "pass over two empty ranges at most": Mutation(
        "receive",
        "for i in 1..100 loop",
        "for i in 1..2 loop",
        messages.test_empty_ranges_are_passed_over,
    ),
    "make a range of each tick": Mutation(
        "open_next_range",
        "order by tick_id limit 100) t",
        "order by tick_id limit 1) t",
        messages.test_empty_ranges_are_passed_over,
    ),
    "take a cut range as a whole": Mutation(
        "open_next_range",
        "x_to => p.pos_cuts[1]",
        "x_to => null",
        beside_workers.test_receivers_go_on_with_the_parts_of_a_cut_range,
    ),
    "take the handed out parts again": Mutation(
        "open_next_range",
        "x_from => p.pos_from, x_until",
        "x_from => null, x_until",
        beside_workers.test_receivers_go_on_with_the_parts_of_a_cut_range,
    ),
    "forget where a part ends": Mutation(
        "lease_events",
        ", x_to => d.pos_to",
        "",
        beside_workers.test_receivers_go_on_with_the_parts_of_a_cut_range,
    ),
    "wait for a session that finishes events": Mutation(
        "lock_free_range",
        "for no key update skip locked",
        "for no key update",
        messages.test_lease_that_is_being_finished_is_not_taken_over_and_stops_no_other,
    ),
    "look at the first ended lease only": Mutation(
        "lock_free_range",
        "order by p.sub_id",
        "order by p.sub_id limit 1",
        messages.test_lease_that_is_being_finished_is_not_taken_over_and_stops_no_other,
    ),
    "take over under the old id": Mutation(
        "lease_events",
        "v_batch constant bigint := pgq.new_batch_id()",
        "v_batch constant bigint := d.pos_batch",
        messages.test_late_receiver_changes_nothing,
    ),
    "leave the rest under the old id": Mutation(
        "lease_events",
        "pgq.new_batch_id(), x_from",
        "d.pos_batch, x_from",
        messages.test_ended_lease_goes_on_with_what_is_not_done,
    ),
    "leave the leased events in the rest": Mutation(
        "lease_events",
        "then i_ids[cardinality(i_ids)]",
        "then null",
        messages.test_receivers_share_a_range_without_overlap,
    ),
    "leave ids of an ended lease in the rest": Mutation(
        "lease_events",
        "where id <> all (i_ids)",
        "",
        messages.test_ended_lease_goes_on_with_what_is_not_done,
    ),
    "forget the ids of the rest": Mutation(
        "lease_events",
        "x_ids => (select",
        "x_pins => (select",
        messages.test_ended_lease_goes_on_with_what_is_not_done,
    ),
    "lease all of the range": Mutation(
        "batch_event_sql",
        "if b.pos_ids is not null then",
        "if false then",
        messages.test_ended_lease_goes_on_with_what_is_not_done,
    ),
    "lease in the place of a dead worker": Mutation(
        "lease_events",
        "if i_rest or not exists (",
        "if i_rest or false and not exists (",
        beside_workers.test_dead_worker_that_comes_back_has_no_lease_of_a_receiver,
    ),
    "take the leased ids along to no worker": Mutation(
        "take_range",
        "x_ids => d.pos_ids",
        "x_ids => null",
        beside_workers.test_workers_take_ended_leases_and_leftovers,
    ),
    "count ends of leases as unclean": Mutation(
        "count_end",
        "= 'receive' then",
        "= '' then",
        beside_workers.test_workers_take_ended_leases_and_leftovers,
    ),
    "forget the leased ids at a part": Mutation(
        "finish_part",
        ", x_ids => p.pos_ids",
        "",
        beside_workers.test_workers_take_ended_leases_and_leftovers,
    ),
    "forget the leased ids in a compaction": Mutation(
        "compact_positions",
        "pos_died, pos_ids, pos_moved)",
        "pos_died, null, pos_moved)",
        messages.test_leases_outlive_compaction_and_repair,
    ),
    "shorten a lease": Mutation(
        "touch_batch",
        "greatest(",
        "coalesce(",
        messages.test_extended_lease_is_not_taken,
    ),
    "write back a lease that was extended": Mutation(
        "move_position",
        "for no key update",
        "",
        partial(leases.test_extension_that_a_snapshot_does_not_see_is_kept, isolation=RR),
    ),
    "finish what is not in the lease": Mutation(
        "finish_events",
        "elsif not x_event_ids <@ p.pos_ids then",
        "elsif false then",
        messages.test_event_is_finished_once,
    ),
    "finish the lease with its first event": Mutation(
        "finish_events",
        "if v_open = '{}' then",
        "if true then",
        partial(messages.test_done_that_was_rolled_back_was_not_done, last=False),
    ),
    "leave a finished lease open": Mutation(
        "finish_events",
        "if v_open = '{}' then",
        "if false then",
        messages.test_event_is_finished_once,
    ),
    "lock leases in the order of their ids": Mutation(
        "finish_events",
        "order by (select pos_sub from pgq.position where pos_batch = e.batch limit 1)",
        "order by e.batch",
        leases.test_leases_are_locked_in_the_order_in_which_a_consumer_leaves,
    ),
    "tell nobody of lost leases": Mutation(
        "finish_events",
        "if pgq.finish_events(l.batch, l.ids) = 0 then",
        "if pgq.finish_events(l.batch, l.ids) = 2 then",
        leases.test_leases_that_are_lost_are_named_and_the_others_are_finished,
    ),
    "finish what has no batch": Mutation(
        "finish_events",
        "(cardinality(x_batch_ids) = cardinality(x_event_ids)) is not true",
        "false",
        partial(leases.test_lists_of_different_lengths_are_refused, batches=[1], events=[]),
    ),
    "open leases without bound": Mutation(
        "lease_slot",
        "if cardinality(v_names) >= 1000 then",
        "if false then",
        messages.test_leases_are_bounded_and_used_again,
    ),
    "number leases by how many there are": Mutation(
        "lease_slot",
        "where v_prefix || n <> all (v_names)",
        "where n > cardinality(v_names)",
        leases.test_subconsumer_that_is_locked_is_skipped_though_one_before_it_was_removed,
    ),
    "use no lease again": Mutation(
        "lease_slot",
        "if found and s.pos_batch is null then",
        "if false then",
        messages.test_leases_are_bounded_and_used_again,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
