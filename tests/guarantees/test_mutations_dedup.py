"""Take one mechanism of dedup keys out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_dedup as dedup
from tests.guarantees import test_dedup_cancel as cancel
from tests.guarantees import test_dedup_delayed as delayed
from tests.guarantees import test_dedup_upkeep as upkeep
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

ONCE, CLEAN = "insert_event_once", "maint_dedup_keys"
TAKE = "on conflict (dedup_queue, dedup_key) do nothing"
expires = dedup.test_key_is_free_when_its_time_is_over_and_one_call_takes_it

MUTATIONS = {
    "lock the key for repeated calls too": Mutation(
        ONCE,
        "interval '0' > v_now;",
        "interval '0' > v_now for update;",
        dedup.test_repeated_call_waits_for_nobody_and_leaves_no_trace,
    ),
    "let whoever waited insert": Mutation(
        ONCE,
        TAKE,
        TAKE.replace("nothing", "update set dedup_ev_id = excluded.dedup_ev_id"),
        partial(
            dedup.test_second_call_waits_for_the_first_one_and_goes_by_its_end,
            end="commit",
            is_new=False,
        ),
    ),
    "update a key that another call has just taken": Mutation(
        ONCE, "and dedup_until + interval '0' <= v_now", "", expires
    ),
    "never free a key": Mutation(ONCE, "and dedup_until + interval '0' > v_now", "", expires),
    "judge by the time after the wait": Mutation(
        ONCE,
        "<= v_now",
        "<= clock_timestamp()",
        dedup.test_call_within_the_window_inserts_nothing_however_long_it_waits,
    ),
    "judge by the beginning of the transaction": Mutation(
        ONCE,
        "v_now constant timestamptz := clock_timestamp()",
        "v_now constant timestamptz := now()",
        dedup.test_window_begins_with_the_call_and_not_with_its_transaction,
    ),
    "begin the window with the transaction": Mutation(
        ONCE,
        "values (q.queue_id, i_key, clock_timestamp() + i_window",
        "values (q.queue_id, i_key, now() + i_window",
        dedup.test_window_begins_with_the_call_and_not_with_its_transaction,
    ),
    "use up an id for a repeated call": Mutation(
        ONCE,
        "perform pgq.check_unstaged",
        "perform nextval('pgq.event_1_id_seq'), pgq.check_unstaged",
        dedup.test_repeated_call_waits_for_nobody_and_leaves_no_trace,
    ),
    "count no new event": Mutation(
        ONCE,
        "if q.queue_per_tx_limit is not null then",
        "if false then",
        dedup.test_limit_of_a_transaction_counts_new_events_only,
    ),
    "lock a key before the table": Mutation(
        ONCE,
        "perform pgq.lock_current_table(q);",
        "",
        upkeep.test_drop_and_a_call_that_renews_a_key_do_not_deadlock,
    ),
    "take a key in a stage": Mutation(
        ONCE,
        "perform pgq.check_unstaged(q.queue_id);",
        "",
        upkeep.test_stage_takes_no_key_in_either_order,
    ),
    "refuse by a stage of another queue": Mutation(
        "check_unstaged",
        "stage_queue = i_queue_id and",
        "",
        upkeep.test_stage_takes_no_key_in_either_order,
    ),
    "let a transaction that took a key become a stage": Mutation(
        "open_stage",
        "if current_setting('pgq.once_' || q.queue_id, true) <> '' then",
        "if false then",
        upkeep.test_stage_takes_no_key_in_either_order,
    ),
    "remember for the session who took a key": Mutation(
        ONCE,
        "q.queue_id, 'on', true)",
        "q.queue_id, 'on', false)",
        upkeep.test_stage_takes_no_key_in_either_order,
    ),
    "leave the keys of a dropped queue": Mutation(
        "drop_queue",
        "delete from pgq.dedup_key where dedup_queue = q.queue_id;",
        "",
        upkeep.test_drop_waits_for_an_open_call_and_leaves_no_key,
    ),
    "keep the key of a cancelled event": Mutation(
        "free_dedup_keys",
        "dedup_ev_id = any (i_ids)",
        "dedup_ev_id <> all (i_ids)",
        cancel.test_event_that_nobody_gets_frees_its_key_with_the_transaction,
    ),
    "free keys of other queues": Mutation(
        "free_dedup_keys",
        "and dedup_queue + 0 = v_queue",
        "",
        cancel.test_event_that_nobody_gets_frees_its_key_with_the_transaction,
    ),
    "free the key of an event that a consumer has had": Mutation(
        "cancel_event",
        "except select unnest(v_others)",
        "",
        cancel.test_event_that_one_consumer_has_had_keeps_its_key,
    ),
    "wait for a key that is taken anew": Mutation(
        "free_dedup_keys",
        "skip locked",
        "",
        cancel.test_cancel_waits_for_no_key_that_is_taken_anew,
    ),
    "insert a delayed event at once": Mutation(
        ONCE,
        "if i_deliver_at > v_now then",
        "if false then",
        delayed.test_delayed_event_comes_once_with_the_id_that_each_call_returned,
    ),
    "delay without a check": Mutation(
        ONCE,
        "perform pgq.check_delayed(i_queue_name, i_deliver_at, 1);",
        "",
        delayed.test_key_and_waiting_event_are_one_transaction,
    ),
    "forget keys when sequences are moved up": Mutation(
        "raise_sequences",
        "select max(dedup_ev_id)",
        "select null::bigint",
        upkeep.test_repair_gives_no_event_the_id_that_a_key_names,
    ),
    "wait for a locked key": Mutation(
        CLEAN, "skip locked", "", dedup.test_cleaner_leaves_the_row_of_an_open_call
    ),
    "delete all keys in one call": Mutation(
        CLEAN, "limit c_limit", "", upkeep.test_expired_keys_are_deleted_in_bounded_calls
    ),
    "delete keys that are taken": Mutation(
        CLEAN, "and dedup_until < v_now", "", upkeep.test_expired_keys_are_deleted_in_bounded_calls
    ),
    "walk over what was deleted": Mutation(
        CLEAN,
        "dedup_until >= v_from and",
        "",
        upkeep.test_round_never_walks_over_what_it_has_deleted_while_xmin_is_held,
    ),
    "never look again at what was passed": Mutation(
        CLEAN,
        "case when v_deleted = c_limit then v_last::text else '' end",
        "coalesce(v_last, v_from)::text",
        upkeep.test_row_committed_late_is_deleted_in_the_next_round,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
