"""Each mechanism of delayed events, taken out: its test notices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_delayed as came
from tests.guarantees import test_delayed_state as state
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MOVE = "move_delayed_events"
late = partial(came.test_event_that_is_committed_after_its_time_comes, xid="select txid_current()")
stepped = came.test_event_inserted_after_the_clock_was_stepped_back_comes
failing = came.test_queue_that_cannot_take_its_events_makes_no_look_of_others_longer
stage = state.test_stage_takes_no_delayed_events
limits = partial(state.test_limits_act_on_the_call, call=state.ONE)
never = partial(state.test_time_that_never_comes_is_refused, call=state.ONE)

MUTATIONS = {
    "forget the transactions that began after the look": Mutation(
        "late_delayed", "where ev_txid >= i_xmax and", "where false and", stepped
    ),
    "forget the transactions in progress at the look": Mutation(
        "late_delayed", "where ev_txid = any (i_xip) and", "where false and", late
    ),
    "leave what began after the look": Mutation(
        "move_due", "and ev_txid >= $3", "and false", stepped
    ),
    "leave what was in progress at the look": Mutation(
        "move_due", "and ev_txid = any ($4)", "and false", late
    ),
    "forget the transaction that looks": Mutation(
        "note_look",
        "union select v_own where v_own is not null",
        "",
        came.test_event_of_the_transaction_that_moves_comes,
    ),
    "forget locked events": Mutation(
        "note_look",
        "union select unnest(i_left)",
        "",
        came.test_event_that_was_locked_comes_later_and_delays_no_other,
    ),
    "forget the look": Mutation(
        MOVE,
        "perform pgq.note_look(v_setting, v_snapshot, v_left)",
        "perform 1",
        came.test_look_reads_no_more_pages_after_many_events_while_xmin_is_held,
    ),
    "forget queues that are behind": Mutation(
        MOVE, "v_still := v_still || jsonb_build_object(q.queue_id, v_seen);", "", failing
    ),
    "one look for all queues": Mutation(
        MOVE, "coalesce(v_behind ->> q.queue_id::text, v_last)", "v_last", failing
    ),
    "two movers at once": Mutation(
        MOVE,
        "pg_try_advisory_xact_lock(7366513, 4)",
        "true",
        came.test_second_mover_moves_nothing_while_the_first_has_not_committed,
    ),
    "no turns": Mutation(
        MOVE,
        "order by queue_id <= v_turn, queue_id",
        "order by queue_id",
        came.test_queues_take_turns,
    ),
    "move in any order": Mutation(
        "move_due",
        "order by ev_queue, %2$I limit $5",
        "order by ev_id limit $5",
        came.test_event_that_is_due_earlier_is_never_in_a_later_batch,
    ),
    "move with an old snapshot": Mutation(
        MOVE,
        "current_setting('transaction_isolation') <> 'read committed'",
        "false",
        partial(came.test_move_is_refused_with_an_old_snapshot, isolation=RR),
    ),
    "move before the repair": Mutation(
        MOVE,
        "or pgq.is_unchecked(q)",
        "",
        state.test_events_of_a_restored_queue_wait_for_the_repair,
    ),
    "keep the time of the insert": Mutation(
        "move_due",
        "case when v_delayed then 'ev_deliver_at' else 'ev_time' end",
        "'ev_time'",
        came.test_event_comes_when_it_is_due_with_its_id_and_the_due_time,
    ),
    "use one id for all": Mutation(
        "move_due",
        "generate_series(1, v_moved)",
        "generate_series(1, 1)",
        came.test_moved_events_count_in_estimates,
    ),
    "no news of transactions in progress": Mutation(
        "delayed_events_are_new",
        "or exists (select from pgq.delayed_event where ev_txid = any (look.seen_xip))",
        "",
        came.test_commit_of_a_delayed_event_is_news_until_the_next_look,
    ),
    "delay what has passed": Mutation(
        "insert_event_at",
        "i_deliver_at <= clock_timestamp()",
        "false",
        came.test_event_of_a_time_that_has_passed_is_inserted_at_once,
    ),
    "take any time": Mutation(
        "check_delayed",
        "i_deliver_at > now() + interval '100 years'",
        "false",
        partial(never, time="'infinity'"),
    ),
    "no limits": Mutation("check_delayed", "perform pgq.check_insert(", "perform concat(", limits),
    "delay in a stage": Mutation(
        "check_delayed",
        "perform pgq.check_unstaged(q.queue_id);",
        "",
        partial(stage, calls=(state.STAGE, state.ONE)),
    ),
    "stage what is delayed": Mutation(
        "check_delayed",
        "perform set_config('pgq.once_' || q.queue_id, 'on', true);",
        "",
        partial(stage, calls=(state.ONE, state.STAGE)),
    ),
    "drop the queue only": Mutation(
        "drop_queue",
        "delete from pgq.delayed_event where ev_queue = q.queue_id;",
        "",
        state.test_drop_waits_for_an_insert_and_removes_what_waits,
    ),
    "see no id that waits": Mutation(
        "ids_are_repeated",
        "select ev_id, false from pgq.delayed_event where ev_queue = $1",
        "select null::bigint, false where false",
        state.test_copy_without_its_sequences_gives_no_id_twice,
    ),
    "move the sequence up to the events only": Mutation(
        "raise_sequences",
        "select max(ev_id) from pgq.delayed_event where ev_queue = q.queue_id",
        "select 0::bigint",
        state.test_copy_without_its_sequences_gives_no_id_twice,
    ),
    "keep the id of an event": Mutation(
        "repair_queue",
        "update pgq.delayed_event set ev_id = nextval(q.queue_event_seq::regclass)",
        "update pgq.delayed_event set ev_id = ev_id",
        state.test_waiting_event_with_the_id_of_an_event_gets_a_new_one_in_the_repair,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
