"""Take one mechanism of the engine out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_faults_drop as drop
from tests.guarantees import test_faults_locks as locks
from tests.guarantees import test_faults_register as register
from tests.guarantees import test_g1_consumers as g1c
from tests.guarantees import test_g1_no_loss as g1
from tests.guarantees import test_g2_no_phantom as g2
from tests.guarantees import test_g3_one_batch as g3
from tests.guarantees import test_g4_order as g4
from tests.guarantees import test_g5_one_owner as g5
from tests.guarantees import test_g6_no_bloat as g6
from tests.guarantees import test_g7_restore as g7
from tests.guarantees.mutations import Mutation, expect_failure, held
from tests.guarantees.sessions import RC, RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

set_aside_late = partial(
    g5.test_setting_aside_with_an_old_snapshot_of_a_finished_batch_fails, isolation=RR
)
MUTATIONS = {
    "truncate whatever was read": Mutation(
        "tick_sees_table",
        "and not v_unseen",
        "",
        partial(g1.test_table_of_an_old_snapshot_is_not_truncated_unread, isolation=RR),
    ),
    "truncate by xmax alone": Mutation(
        "tick_sees_table",
        "or exists (select from pgq.%1$I where ev_txid = any ($2))",
        "or ($2 is null)",
        g1.test_event_in_progress_at_the_last_tick_is_not_truncated_unread,
    ),
    "rotate past all but the fastest": Mutation(
        "slowest_tick",
        "min(pos_last_tick)",
        "max(pos_last_tick)",
        g1c.test_slow_consumer_holds_its_events_against_rotation,
    ),
    "search the current table only": Mutation(
        "range_sql",
        "pgq.event_table(i_queue_id))",
        "pgq.event_table(i_queue_id, (select queue_cur_table from pgq.queue"
        " where queue_id = i_queue_id)))",
        g1.test_copy_into_a_table_learned_before_rotations,
    ),
    "forget who was in progress": Mutation(
        "range_sql",
        "if v_late <> '{}' then",
        "if false then",
        g4.test_transaction_that_overlaps_a_tick_comes_after_those_before_it,
    ),
    "take who was in progress for done": Mutation(
        "range_sql",
        "if exists (select from txid_snapshot_xip",
        "if false and exists (select from txid_snapshot_xip",
        g2.test_batch_stays_the_same_when_somebody_commits_after_its_tick,
    ),
    "give retries to everybody": Mutation(
        "range_sql",
        "' or ev_owner operator(pg_catalog.=) %L'",
        "' or %L <> '''''",
        g3.test_retried_event_comes_again_to_its_consumer_only,
    ),
    "leave the order to chance": Mutation(
        "batch_event_sql",
        "|| ' order by 1, 3'",
        "",
        g4.test_events_of_one_batch_are_ordered_by_id,
    ),
    "trust a position that was trimmed": Mutation(
        "move_position",
        "for no key update",
        "",
        partial(g5.test_old_snapshot_from_before_maint_positions_moves_nothing, isolation=RR),
    ),
    "finish from a position that was trimmed": Mutation(
        "move_position",
        "for key share",
        "",
        partial(g5.test_old_snapshot_from_before_maint_positions_finishes_nothing, isolation=RR),
    ),
    "trim positions behind a locked one": Mutation(
        "maint_positions",
        "and free.pos_no < kept.pos_no",
        "",
        partial(
            g5.test_no_gap_that_two_maint_positions_leave_opens_a_lost_batch,
            isolation=RC,
        ),
    ),
    "open a batch without the lock": Mutation(
        "next_batch_custom",
        "for no key update",
        "",
        g3.test_two_sessions_that_ask_at_once_get_one_batch,
    ),
    "finish a batch without the lock": Mutation(
        "lock_batch",
        "for no key update",
        "",
        g5.test_finish_that_waited_for_another_finish_fails,
    ),
    "believe an old snapshot": Mutation(
        "lock_batch",
        "and not x_moves",
        "and false",
        set_aside_late,
    ),
    "set aside without the lock": Mutation(
        "batch_retry",
        "(pgq.lock_batch(i_batch_id, false)).pos_sub is null",
        "not exists (select from pgq.find_batch(i_batch_id))",
        set_aside_late,
    ),
    "tick without the lock": Mutation(
        "insert_tick",
        "for no key update",
        "",
        g3.test_ticker_that_waited_for_another_sees_what_committed_meanwhile,
    ),
    "tick in any isolation": Mutation(
        "insert_tick",
        "<> 'read committed'",
        "is null",
        partial(
            g3.test_ticker_and_rotation_with_an_old_snapshot_are_refused,
            isolation=RR,
            call="tick_queue('q')",
        ),
    ),
    "rotate in any isolation": Mutation(
        "maint_rotate_tables_step1",
        "<> 'read committed'",
        "is null",
        partial(
            g3.test_ticker_and_rotation_with_an_old_snapshot_are_refused,
            isolation=RR,
            call="maint_rotate_tables_step1('q')",
        ),
    ),
    "tick whatever the last one saw": Mutation(
        "check_tick_order",
        "if v_damaged then",
        "if false then",
        g7.test_tick_that_would_see_less_than_the_last_is_refused,
    ),
    "register without the queue's lock": Mutation(
        "register_consumer_at",
        "where queue_name = x_queue_name for key share",
        "where queue_name = x_queue_name",
        g1c.test_rotation_waits_for_a_consumer_that_has_looked_at_its_tick,
    ),
    "see oneself in a tick": Mutation(
        "insert_tick",
        "pgq.exclude_own_xid(txid_current_snapshot())",
        "txid_current_snapshot()",
        g1c.test_event_inserted_after_a_tick_and_a_batch_in_one_transaction_is_delivered,
    ),
    "see oneself in a queue's first tick": Mutation(
        "create_queue",
        "pgq.exclude_own_xid(txid_current_snapshot())",
        "txid_current_snapshot()",
        partial(g1c.test_event_in_the_transaction_that_made_queue_and_consumer, isolation=RC),
    ),
    "finish for a registration that is gone": Mutation(
        "lock_batch",
        "if v_sub is null or",
        "if",
        partial(
            register.test_batch_of_a_consumer_that_an_older_snapshot_removed_is_not_open,
            isolation=RR,
        ),
    ),
    "register by an older snapshot": Mutation(
        "register_consumer_at",
        "perform pgq.lock_event_tables(x_queue_name);",
        "null;",
        partial(
            register.test_older_snapshot_registers_at_no_tick_that_a_rotation_passed,
            isolation=RR,
            call="register_consumer_at('q', %s, %s)",
        ),
    ),
    "leave a name without its lock": Mutation(
        "unregister_consumer",
        "order by s.sub_id for update of c",
        "",
        partial(register.test_name_that_leaves_one_queue_and_enters_another, first="register"),
    ),
    "delete the tick that is needed": Mutation(
        "maint_ticks",
        "tick_id < v_keep",
        "tick_id <= v_keep",
        g1c.test_consumer_that_comes_while_ticks_are_deleted_keeps_its_tick,
    ),
    "fall into the last leaf": Mutation(
        "build_insert_leaf",
        "if v_queue = %s then",
        "if %s > 0 then",
        partial(g1.test_queue_made_in_the_middle_of_a_transaction_gets_its_events, others=0),
    ),
    "know no table but the old ones": Mutation(
        "build_insert_group",
        "return pgq.insert_row(v_queue, null, now(), null, null, %4$s);",
        "return null; -- %4$s",
        partial(g1.test_queue_that_grew_in_the_middle_of_a_transaction_gets_its_events, others=64),
    ),
    "move ten retries a turn": Mutation(
        "maint_retry_events",
        "c_limit constant int := 10000",
        "c_limit constant int := 10",
        g1c.test_thousands_of_retries_due_are_drained,
    ),
    "retry for consumers that leave": Mutation(
        "event_retry_raw",
        "for key share of s",
        "",
        partial(
            register.test_event_set_aside_while_its_consumer_leaves_does_not_stay,
            call=register.RETRY_RAW,
        ),
    ),
    "walk over all ticks": Mutation(
        "find_batch",
        "limit 1",
        "",
        held(g6.test_backlog_of_a_slow_consumer_makes_no_call_dearer),
    ),
    "take an id before a transaction id": Mutation(
        "build_insert_event",
        "v_txid := txid_current();",
        "v_txid := case when nextval('pgq.event_1_id_seq') > 0 then txid_current() end;",
        partial(
            locks.test_event_that_a_tick_counts_is_seen_or_known_to_be_in_progress,
            call="select pgq.insert_event('q', 't', 'd')",
        ),
    ),
    "grow a queue beside one that is made": Mutation(
        "set_queue_config",
        "perform pg_advisory_xact_lock(7366513, 2);",
        "",
        locks.test_queue_that_grows_beside_one_that_is_made_waits_for_it,
    ),
    "count each retry as the first": Mutation(
        "batch_retry",
        "pgq.add_tries(ev_retry, 1)",
        "1",
        partial(g3.test_retried_event_says_how_often_it_was_retried, call="batch_retry(%s, 0)"),
    ),
    "tick though another ticker just did": Mutation(
        "ticker",
        "    if not pgq.tick_is_due(q) then",
        "    if false then",
        g3.test_ticker_that_waited_for_another_looks_again_whether_it_is_time,
    ),
    "measure the age of a tick from the transaction's beginning": Mutation(
        "next_batch_custom",
        "clock_timestamp() - cur_tick_time",
        "now() - cur_tick_time",
        g1c.test_tick_grows_old_while_the_transaction_that_asks_goes_on,
    ),
    "leave the code of a dropped queue behind": Mutation(
        "drop_queue",
        "perform pgq.build_insert_path(q.queue_id);",
        "",
        drop.test_drop_leaves_nothing_behind,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
