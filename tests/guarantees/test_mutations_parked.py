"""Take one mechanism of parked events out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_cancel_parked as cancelled
from tests.guarantees import test_parked as parked
from tests.guarantees import test_parked_moves as moves
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
    "park in any order": Mutation(
        "event_park",
        "partition by u.key order by e.ev_id, e.ev_txid",
        "partition by u.key order by e.ev_id desc",
        parked.test_order_is_that_of_the_batches_and_not_of_the_ids,
    ),
    "leave the mode to receivers": Mutation(
        "event_park",
        "if b.sub_mode is null then",
        "if false then",
        partial(parked.test_consumer_that_parks_is_plain, takes="receive('q', 'c', 1, '1 hour')"),
    ),
    "take what was cancelled": Mutation(
        "take_parked",
        "for key share;",
        ";",
        partial(
            cancelled.test_older_snapshot_takes_no_parked_event_that_was_cancelled,
            isolation=RR,
            number=0,
        ),
    ),
    "finish parked events as a lease": Mutation(
        "finish_events",
        "or p.pos_last_tick = p.pos_next_tick then",
        "then",
        parked.test_what_makes_no_sense_is_refused,
    ),
    "park in the order of ids": Mutation(
        "event_park",
        "coalesce((v_last ->> n.key)::bigint, 0) + n.number",
        "n.ev_id",
        parked.test_order_is_that_of_the_batches_and_not_of_the_ids,
    ),
    "read in the order of ids": Mutation(
        "parked_event_sql",
        "order by number",
        "order by ev_id",
        parked.test_part_of_parked_events_ends_those_that_the_caller_names,
    ),
    "finish what stands before in the batch": Mutation(
        "finish_parked_part",
        "using x_done || x_up_to",
        "using coalesce(p.pos_ids[:array_position(p.pos_ids, x_up_to)], '{}') || x_done",
        parked.test_part_of_parked_events_ends_those_that_the_caller_names,
    ),
    "finish what waits behind a failed event": Mutation(
        "finish_parked_part",
        "remove_parked(v_owner, p.pos_batch, v_ids)",
        "remove_parked(v_owner, p.pos_batch, x_done || x_up_to)",
        parked.test_part_of_parked_events_ends_those_that_the_caller_names,
    ),
    "take a follower for a head": Mutation(
        "event_park",
        "(v_last ? n.key) is not true and n.number = 1",
        "true",
        parked.test_keys_are_listed_with_their_heads,
    ),
    "take a failed event for a head": Mutation(
        "choose_parked",
        "continue when exists",
        "continue when false and exists",
        parked.test_failed_event_behind_one_that_is_not_finished_waits_for_it,
    ),
    "let followers overtake a failed event": Mutation(
        "remove_parked",
        "f.park_key = t.park_key and f.no <= t.park_no",
        "f.park_key = t.park_key and f.no = t.park_no",
        parked.test_nothing_behind_a_failed_event_is_finished_whatever_the_caller_says,
    ),
    "read on behind a failed event": Mutation(
        "parked_event_sql",
        "(park_no operator(pg_catalog.>=) failed_no) is not true",
        "true",
        parked.test_head_that_fails_again_keeps_its_place_and_counts_its_retries,
    ),
    "take all followers with a failed head": Mutation(
        "choose_parked",
        "case when h.park_error is null then v_left else 1 end",
        "v_left",
        parked.test_failed_head_comes_alone_and_a_free_one_with_its_followers,
    ),
    "leave a key without a head": Mutation(
        "remove_parked",
        "and park_after is null",
        "and false",
        parked.test_failed_event_and_those_behind_it_wait_and_come_in_order,
    ),
    "finish and keep": Mutation(
        "finish_batch",
        "p.pos_last_tick = p.pos_next_tick",
        "false",
        parked.test_failed_event_and_those_behind_it_wait_and_come_in_order,
    ),
    "take what another session has taken": Mutation(
        "take_parked",
        "if p.pos_batch is not null then",
        "if false then",
        parked.test_open_batch_of_parked_events_is_given_again_and_no_other_beside_it,
    ),
    "take without the lock": Mutation(
        "take_parked",
        "pgq.lock_subscription(i_queue_name, i_consumer_name)",
        "(select newest from pgq.position newest order by pos_no desc limit 1)",
        parked.test_two_sessions_that_take_at_once_do_not_both_get_an_event,
    ),
    "keep what comes again": Mutation(
        "forget_parked",
        "not txid_visible_in_snapshot",
        "false and txid_visible_in_snapshot",
        moves.test_consumer_that_moves_back_forgets_what_comes_again_and_nothing_else,
    ),
    "forget what does not come again": Mutation(
        "forget_parked",
        "not txid_visible_in_snapshot",
        "true or txid_visible_in_snapshot",
        moves.test_consumer_that_moves_back_forgets_what_comes_again_and_nothing_else,
    ),
    "leave parked events in another numbering": Mutation(
        "repair_queue",
        "update pgq.parked\n       set ev_txid = 3 + 2 * (",
        "update pgq.parked\n       set ev_txid = 0 * (",
        moves.test_repair_leaves_parked_events_where_they_are_among_the_ticks,
    ),
    "leave parked events without an owner": Mutation(
        "remove_registration",
        "delete from pgq.parked where ev_owner = r.sub_id;",
        "",
        moves.test_consumer_that_leaves_takes_its_parked_events_with_it,
    ),
    "delete what a handler has": Mutation(
        "delete_parked",
        "and ev_id <> all (v_taken)",
        "",
        parked.test_deleted_head_frees_its_key_unless_a_handler_may_have_it,
    ),
    "delete a failed event behind the head": Mutation(
        "delete_parked",
        "park_key = h.park_key and park_no < h.park_no",
        "false",
        moves.test_only_the_first_event_of_a_key_is_deleted_and_the_next_one_is_taken,
    ),
    "take the event behind the last finished one for the head": Mutation(
        "remove_parked",
        "and park_no > r.numbers[1]",
        "and park_no > r.numbers[cardinality(r.numbers)]",
        moves.test_key_has_one_head_in_whatever_order_its_events_are_finished,
    ),
    "make an event due behind the head": Mutation(
        "remove_parked",
        "continue when r.due is null or",
        "continue when",
        moves.test_key_has_one_head_in_whatever_order_its_events_are_finished,
    ),
    "take a failed event that is finished for the head": Mutation(
        "remove_parked",
        "r.error is not null and exists",
        "r.error is not null and not exists",
        moves.test_failed_event_that_is_finished_before_the_head_leaves_it_the_head,
    ),
    "list a failed event behind the head": Mutation(
        "get_parked",
        "and b.park_no < p.park_no",
        "and false",
        moves.test_failed_event_behind_the_head_is_neither_listed_nor_retried,
    ),
    "retry a failed event behind the head": Mutation(
        "retry_parked",
        "park_no < h.park_no",
        "false",
        moves.test_failed_event_behind_the_head_is_neither_listed_nor_retried,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_is_noticed(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
