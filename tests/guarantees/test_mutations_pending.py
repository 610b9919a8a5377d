"""Take one mechanism of pending events out, and the test that is there for it has to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_parked_moves as parked_moves
from tests.guarantees import test_pending as pending
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
    "count ids only": Mutation(
        "get_consumer_info",
        "newest.tick_event_seq <= done.tick_event_seq and newest.tick_id > done.tick_id",
        "false",
        pending.test_events_of_a_transaction_that_was_open_at_the_tick_are_pending,
    ),
    "leave out what the tick lists": Mutation(
        "range_txids",
        "where ev_txid = any ($4)",
        "where false and ev_txid = any ($4)",
        pending.test_events_of_a_transaction_that_was_open_at_the_tick_are_pending,
    ),
    "leave out what no tick lists": Mutation(
        "range_txids",
        "where ev_txid >= $1",
        "where false and ev_txid >= $1",
        pending.test_newest_transaction_counts_though_no_tick_lists_it,
    ),
    "count what no tick sees": Mutation(
        "range_txids",
        "and txid_visible_in_snapshot(ev_txid, $3)",
        "and $3 is not null",
        pending.test_events_that_the_last_tick_does_not_see_are_not_pending,
    ),
    "count without a bound": Mutation(
        "range_txids",
        "limit $8",
        "limit $8 * 2",
        pending.test_a_thousand_events_are_counted_at_most,
    ),
    "forget released stages": Mutation(
        "range_txids",
        "if r.released is not null then",
        "if false then",
        pending.test_events_of_a_stage_are_pending_when_it_is_released,
    ),
    "count stages that wait": Mutation(
        "range_txids",
        "ev_txid <> all ($5)",
        "$5 is not null",
        pending.test_events_of_a_stage_that_waits_are_not_pending,
    ),
    "wait for a lock": Mutation(
        "range_txids",
        "SET lock_timeout TO '100ms'",
        "",
        pending.test_locked_table_delays_no_list_and_hides_no_other_queue,
    ),
    "break the list": Mutation(
        "range_txids",
        "when others then",
        "when query_canceled then",
        pending.test_locked_table_delays_no_list_and_hides_no_other_queue,
    ),
    "wait since any tick": Mutation(
        "get_waiting_since",
        "select from unnest(v_txids) x where txid_visible_in_snapshot(x, tick_snapshot)",
        "select from unnest(v_txids) x",
        pending.test_events_of_a_transaction_that_was_open_at_the_tick_are_pending,
    ),
    "wait since the first new id": Mutation(
        "get_waiting_since",
        "least(v_moved, v_seen, s.opened)",
        "coalesce(v_moved, v_seen, s.opened)",
        pending.test_events_before_the_first_new_id_wait_for_longer,
    ),
    "leave out an open batch": Mutation(
        "get_waiting_since",
        "least(v_moved, v_seen, s.opened)",
        "least(v_moved, v_seen)",
        pending.test_open_batch_waits_even_if_it_is_empty,
    ),
    "leave out new ids": Mutation(
        "get_waiting_since",
        "least(v_moved, v_seen, s.opened)",
        "least(v_seen, s.opened)",
        pending.test_new_ids_count_as_before,
    ),
    "leave out parked events": Mutation(
        "get_waiting_since",
        "park_after <= now()",
        "false",
        pending.test_parked_events_wait_from_when_they_are_due,
    ),
    "wait for parked events before they are due": Mutation(
        "get_waiting_since",
        "park_after <= now()",
        "true",
        pending.test_parked_events_wait_from_when_they_are_due,
    ),
    "wait for a failed event behind a head": Mutation(
        "get_waiting_since",
        "and park_no < h.park_no",
        "and false",
        parked_moves.test_key_with_a_failed_event_behind_its_head_is_one_key_and_due_with_its_head,
    ),
    "let the minimum count ids only": Mutation(
        "find_tick_helper",
        "if v_met is not true and i_min_count is not null and",
        "if false and",
        pending.test_batch_of_a_minimum_has_events_that_were_open_at_its_first_tick,
    ),
    "let any event be enough": Mutation(
        "find_tick_helper",
        "v_met := i_min_count <= (",
        "v_met := 1 <= (",
        pending.test_batch_of_a_minimum_has_events_that_were_open_at_its_first_tick,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
