"""Take one mechanism that knows of restores, repairs and stages out: its test has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_faults_locks as locks
from tests.guarantees import test_g7_copies as copies
from tests.guarantees import test_g7_moved as moved
from tests.guarantees import test_g7_sequences as sequences
from tests.guarantees import test_g7_unrepaired as unrepaired
from tests.guarantees import test_stages_restore as restore
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

TICKS, IDS = "event_1_tick_seq", "event_1_id_seq"
MUTATIONS = {
    "tick behind the last xmax": Mutation(
        "check_tick_order",
        "txid_snapshot_xmax(x_snapshot) < txid_snapshot_xmax(last.tick_snapshot)",
        "false",
        moved.test_ids_behind_those_of_the_last_tick_are_noticed_beside_an_old_producer,
    ),
    "tick over producers that the last tick takes for done": Mutation(
        "check_tick_order",
        "where txid_visible_in_snapshot(x, last.tick_snapshot)",
        "where false",
        partial(moved.test_producer_that_the_last_tick_takes_for_done_is_noticed, told="select"),
    ),
    "take a producer that was in progress all along for a strange one": Mutation(
        "check_tick_order",
        "where txid_visible_in_snapshot(x, last.tick_snapshot)",
        "",
        moved.test_move_that_takes_every_id_along_goes_on_by_itself,
    ),
    "tick with numbers of ticks that were used before": Mutation(
        "insert_tick",
        "if v_tick_seq < last.tick_id then",
        "if false then",
        partial(sequences.test_queue_whose_sequence_is_behind_is_repaired, sequence=TICKS),
    ),
    "tick with ids of events that were used before": Mutation(
        "insert_tick",
        "v_event_seq < last.tick_event_seq",
        "false",
        partial(sequences.test_queue_whose_sequence_is_behind_is_repaired, sequence=IDS),
    ),
    "take events with ids that were used before for older ones": Mutation(
        "repair_queue",
        "where $4) here",
        "where false) here",
        partial(sequences.test_queue_whose_sequence_is_behind_is_repaired, sequence=IDS),
    ),
    "ask the sequence of events alone whether it is behind": Mutation(
        "repair_queue",
        "pgq.seq_getval(q.queue_tick_seq) < v_last.tick_id",
        "false",
        copies.test_events_are_told_where_nothing_of_the_source_is_left,
    ),
    "leave two events one id": Mutation(
        "repair_queue",
        "case when is_new then nextval($1) else ev_id end",
        "ev_id",
        partial(sequences.test_queue_whose_sequence_is_behind_is_repaired, sequence=IDS),
    ),
    "leave the sequence of batches behind": Mutation(
        "raise_sequences",
        "max(pos_batch)",
        "0",
        partial(
            sequences.test_repair_moves_the_sequences_of_all_queues_up, sequence="batch_id_seq"
        ),
    ),
    "move sequences back": Mutation(
        "raise_sequences",
        "used.number >",
        "used.number is not null or used.number >",
        sequences.test_repair_moves_no_sequence_back,
    ),
    "tick by what the last tick takes for done": Mutation(
        "check_tick_order",
        "or coalesce(txid_visible_in_snapshot($4, $2), false)",
        "",
        partial(
            moved.test_caller_that_the_last_tick_takes_for_done_is_noticed, call=moved.CALLS[1]
        ),
    ),
    "tick over what was written since the restore": Mutation(
        "check_tick_order",
        "where ev_id > $1 and txid_visible_in_snapshot(ev_txid, $2)",
        "where false",
        partial(moved.test_event_that_the_last_tick_takes_for_seen_is_noticed, told=moved.MOVED),
    ),
    "tick over events still to come": Mutation(
        "check_tick_order",
        "and not txid_visible_in_snapshot(ev_txid, snapshot)",
        "and false",
        partial(
            moved.test_event_of_the_dump_with_an_id_not_yet_used_up_here_is_noticed,
            later=1_000_000,
        ),
    ),
    "take the ticker's own events for strange": Mutation(
        "check_tick_order",
        "or ev_txid is distinct from own",
        "or true",
        moved.test_move_that_takes_every_id_along_goes_on_by_itself,
    ),
    "let a stage of the dump hide events": Mutation(
        "check_tick_order",
        "and ev_time > stage_time + interval '1 minute'",
        "and false",
        moved.test_stage_of_the_dump_with_the_id_of_a_producer_that_is_done_is_noticed,
    ),
    "commit in a queue that waits for repair": Mutation(
        "commit_stage",
        "perform pgq.check_restored(q);",
        "",
        restore.test_stage_is_not_committed_where_the_last_tick_would_take_that_for_seen,
    ),
    "commit what the last tick takes for seen": Mutation(
        "check_restored",
        "or txid_visible_in_snapshot(txid_current(), v_last)",
        "",
        restore.test_transaction_that_the_last_tick_takes_for_seen_commits_no_stage,
    ),
    "tick over stages still to come": Mutation(
        "check_tick_order",
        "and not txid_visible_in_snapshot(stage_txid, snapshot)",
        "and false",
        restore.test_stages_of_ids_still_to_come_are_noticed_at_the_first_tick,
    ),
    "stage in a queue that waits for repair": Mutation(
        "open_stage",
        "perform pgq.check_restored(q);",
        "",
        restore.test_stages_of_before_the_restore_are_lost_and_new_ones_wait_for_the_repair,
    ),
    "commit a stage that is still to come": Mutation(
        "commit_stage",
        "txid_snapshot_xmax(txid_current_snapshot())",
        "9223372036854775807",
        restore.test_rows_of_a_dump_cannot_be_committed_while_its_ids_are_still_to_come,
    ),
    "name a stage by its transaction": Mutation(
        "open_stage",
        "hashtextextended(gen_random_uuid()::text, 0) & 9223372036854775807",
        "txid_current()",
        partial(
            restore.test_stage_is_not_taken_for_a_lost_one_of_the_same_transaction_id,
            named=("lost",),
        ),
    ),
    "commit whatever is left of the named stages": Mutation(
        "commit_stage",
        "if v_found <> v_wanted then",
        "if v_found = 0 then",
        partial(
            restore.test_stage_is_not_taken_for_a_lost_one_of_the_same_transaction_id,
            named=("lost", "kept"),
        ),
    ),
    "take a stage of the dump for one's own": Mutation(
        "open_stage",
        "and stage_time = now()",
        "",
        restore.test_transaction_with_the_id_of_a_stage_of_the_dump_is_not_that_stage,
    ),
    "repair by who staged": Mutation(
        "repair_queue",
        "coalesce(s.stage_released_by, e.ev_txid)",
        "e.ev_txid",
        restore.test_what_was_committed_comes_once_after_a_repair_and_the_rest_never,
    ),
    "repair what waits": Mutation(
        "repair_queue",
        "where (s.stage_txid is null or s.stage_released_by > 0)",
        "where true",
        restore.test_what_was_committed_comes_once_after_a_repair_and_the_rest_never,
    ),
    "repair by ids alone": Mutation(
        "repair_queue",
        "or e.ev_time = s.stage_time",
        "or true",
        restore.test_events_of_since_the_restore_are_not_taken_for_those_of_a_stage,
    ),
    "drop retried copies in a repair": Mutation(
        "repair_queue",
        "and e.ev_owner is null",
        "",
        restore.test_retried_copies_that_a_stage_made_are_not_lost_with_it,
    ),
    "repair beside a consumer that opens a batch": Mutation(
        "lock_queue",
        "format('select from pgq.registration where sub_queue = %L for update',"
        "\n                        queue_id)",
        "'select 1'",
        locks.test_repair_waits_for_a_consumer_that_has_opened_a_batch,
    ),
    "keep stages over a repair": Mutation(
        "repair_queue",
        "delete from pgq.stage where stage_queue = q.queue_id;",
        "",
        restore.test_what_was_committed_comes_once_after_a_repair_and_the_rest_never,
    ),
    "tell other clusters by the row alone": Mutation(
        "is_moved",
        "q.queue_system_id is distinct from pgq.system_identifier()",
        "false",
        partial(moved.test_event_that_the_last_tick_takes_for_seen_is_noticed, told=moved.MOVED),
    ),
    "tell restores by the cluster alone": Mutation(
        "is_moved",
        "checked_queue = q.queue_id) is not true",
        "checked_queue = q.queue_id) is null",
        partial(moved.test_event_that_the_last_tick_takes_for_seen_is_noticed, told=moved.RESTORED),
    ),
    "tell restores by one row": Mutation(
        "insert_tick",
        "perform pgq.mark_checked(i_queue_id, 2);",
        "null;",
        partial(moved.test_event_that_the_last_tick_takes_for_seen_is_noticed, told=moved.TWICE),
    ),
    "read before anybody compared the ids": Mutation(
        "is_unchecked",
        "pgq.is_moved(q)",
        "false",
        partial(
            unrepaired.test_queue_of_a_restored_dump_is_neither_read_nor_sought_until_repaired,
            restore=unrepaired.reach,
        ),
    ),
    "leave ids to come to the system identifier": Mutation(
        "is_unchecked",
        "txid_snapshot_xmax(txid_current_snapshot()) <",
        "9223372036854775807 <",
        unrepaired.test_backlog_whose_own_ticks_are_reached_is_not_read_before_the_last_one_is,
    ),
    "read a batch of a queue that waits for repair": Mutation(
        "check_queue",
        "perform pgq.check_moved(pgq.find_queue(i_queue_name));",
        "",
        unrepaired.test_part_of_a_batch_that_is_left_comes_once_after_the_repair,
    ),
    "look for the events beside a repair": Mutation(
        "batch_event_sql",
        "b.queue_version);\n        select * into b from pgq.find_batch(x_batch_id);",
        "b.queue_version);",
        unrepaired.test_reader_that_comes_during_the_repair_is_told_to_open_its_batch_again,
    ),
    "check a session once and never again": Mutation(
        "batch_event_sql",
        "is distinct from b.queue_version",
        "is null",
        unrepaired.test_reader_checks_again_after_a_change_of_the_queue,
    ),
    "read a range of a queue that waits for repair": Mutation(
        "tick_event_sql",
        "perform pgq.check_moved(pgq.find_queue(i_queue_name));",
        "",
        partial(
            unrepaired.test_queue_of_a_restored_dump_is_neither_read_nor_sought_until_repaired,
            restore=unrepaired.larger,
        ),
    ),
    "rotate a queue that waits for repair": Mutation(
        "maint_rotate_tables_step1",
        "perform pgq.check_moved(q);",
        "",
        partial(
            unrepaired.test_rotation_truncates_nothing_of_a_restored_queue,
            restore=unrepaired.larger,
        ),
    ),
    "retry in a queue that waits for repair": Mutation(
        "maint_retry_events",
        "and not pgq.is_unchecked(due)",
        "",
        unrepaired.test_retried_events_of_a_restored_queue_wait_for_the_repair,
    ),
    "refuse every move until a tick": Mutation(
        "check_moved",
        "perform pgq.check_tick_order(q, last, txid_current_snapshot());",
        "raise exception using errcode = 'PQ012';",
        unrepaired.test_sound_move_is_read_and_rotated_before_its_first_tick,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
