"""Take one mechanism that knows of restores and stages out, and its test has to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_stages_restore as restore
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
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
        "v_damaged or exists (",
        "v_damaged and exists (",
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
    "take a stage of the dump for one's own": Mutation(
        "open_stage",
        "and stage_time = now()",
        "",
        restore.test_transaction_with_the_id_of_a_stage_of_the_dump_is_not_that_stage,
    ),
    "repair by who staged": Mutation(
        "repair_queue",
        "coalesce(s.stage_commit, e.ev_txid)",
        "e.ev_txid",
        restore.test_what_was_committed_comes_once_after_a_repair_and_the_rest_never,
    ),
    "repair what waits": Mutation(
        "repair_queue",
        "where s.stage_txid is null or s.stage_commit > 0",
        "",
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
    "keep stages over a repair": Mutation(
        "repair_queue",
        "delete from pgq.stage where stage_queue = q.queue_id;",
        "",
        restore.test_what_was_committed_comes_once_after_a_repair_and_the_rest_never,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
