"""Take one mechanism of stages out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees import test_stages as stages
from tests.guarantees import test_stages_consume as consume
from tests.guarantees import test_stages_locks as locks
from tests.guarantees import test_stages_rotation as rotation
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.stages import DROP
from tests.guarantees.test_faults_drop import DROP as DROP_QUEUE

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

overlaps = stages.test_consumers_get_what_was_committed_once_whatever_overlaps
shares = stages.test_those_who_share_a_range_by_its_stages_read_all_of_it_once
interplay = partial(overlaps, seed=1, steps=100)  # passes without a mutation, as do the others
sharing = partial(shares, seed=10, steps=100)
repeated = stages.test_repeated_epoch_with_other_events_or_before_the_last_is_refused
other_events = partial(repeated, epoch=2, fingerprint=-17)
gone_back = partial(repeated, epoch=1, fingerprint=17)
dropped: dict[str, Any] = {"call": DROP, "args": ("w",)}


def no_deadlock(first: Any, then: Any) -> partial[None]:
    """Let a queue be dropped between two calls of one who stages."""
    return partial(locks.drop_beside, first=first, then=then, known=True)


MUTATIONS = {
    "forget which stages a share is of": Mutation(
        "find_range_stages", "and (i_stages is null or stage_id = any (i_stages))", "", sharing
    ),
    "read what was not staged in each share": Mutation(
        "range_sql",
        "case when i_stages is null then v_sql ||",
        "case when true then v_sql ||",
        sharing,
    ),
    "list stages that the range does not see yet": Mutation(
        "get_tick_stages",
        "and txid_visible_in_snapshot(s.stage_released_by, r.to_snapshot)",
        "",
        sharing,
    ),
    "list stages of before the range": Mutation(
        "get_tick_stages",
        "s.stage_released_by >= txid_snapshot_xmax(r.from_snapshot)",
        "s.stage_released_by > 0",
        sharing,
    ),
    "list only stages given by who began after the range did": Mutation(
        "get_tick_stages",
        "or s.stage_released_by = any (array(select txid_snapshot_xip(r.from_snapshot)))",
        "",
        stages.test_stage_given_by_a_transaction_older_than_a_tick_is_shared_after_it,
    ),
    "forget stages without events at once": Mutation(
        "maint_stages",
        "(stage_released_by = 0 or txid_visible_in_snapshot(",
        "(true or txid_visible_in_snapshot(",
        stages.test_stage_without_events_is_known_as_long_as_its_range_can_be_read,
    ),
    "keep stages without events for good": Mutation(
        "maint_stages",
        "(stage_released_by = 0 or txid_visible_in_snapshot(",
        "(stage_released_by = 0 and txid_visible_in_snapshot(",
        stages.test_stage_without_events_is_known_as_long_as_its_range_can_be_read,
    ),
    "let a share be empty without a word": Mutation(
        "range_sql",
        "i_stages is not null and cardinality(i_stages) <> coalesce(cardinality(v_released), 0)",
        "false",
        stages.test_share_of_a_stage_that_is_not_of_the_range_is_refused,
    ),
    "give staged events at once": Mutation(
        "range_sql",
        "or ev_txid operator",
        "or true or ev_txid operator",
        stages.test_events_of_stages_come_in_one_batch_as_those_of_who_commits_them,
    ),
    "give staged events at once, whatever overlaps": Mutation(
        "range_sql", "or ev_txid operator", "or true or ev_txid operator", interplay
    ),
    "let retried copies wait": Mutation(
        "range_sql",
        "(ev_owner is not null or ev_txid operator(pg_catalog.<>)",
        "(ev_txid operator(pg_catalog.<>)",
        partial(
            consume.test_retried_copy_does_not_wait_with_the_stage_whose_transaction_made_it,
            late=True,
        ),
    ),
    "give retried copies again": Mutation(
        "range_sql",
        "and ev_owner is null and ev_txid operator",
        "and ev_txid operator",
        partial(
            consume.test_retried_copy_does_not_wait_with_the_stage_whose_transaction_made_it,
            late=False,
        ),
    ),
    "know only stages that began after the last tick": Mutation(
        "find_range_stages",
        " or stage_txid = any (i_late)",
        "",
        stages.test_stage_in_progress_at_a_tick_waits_as_any_other,
    ),
    "never give staged events": Mutation(
        "range_sql",
        "if v_released is not null then",
        "if false then",
        stages.test_stage_committed_by_its_own_transaction_is_given_by_it,
    ),
    "forget who committed stages over a tick": Mutation(
        "find_range_stages",
        " or stage_released_by = any (i_late)",
        "",
        stages.test_commit_in_progress_over_ticks_gives_all_when_it_is_done,
    ),
    "give what is committed after the tick": Mutation(
        "find_range_stages",
        "and txid_visible_in_snapshot(stage_released_by, i_snapshot)",
        "",
        stages.test_commit_in_progress_over_ticks_gives_all_when_it_is_done,
    ),
    "name the transaction that staged": Mutation(
        "range_sql",
        "released_by as ev_txid",
        "ev_txid",
        stages.test_events_of_stages_come_in_one_batch_as_those_of_who_commits_them,
    ),
    "look for events by the transaction that staged": Mutation(
        "find_batch_events",
        "(%s) e",
        "(select * from (%s) e join pgq.stage on ev_txid = stage_txid) e",
        partial(consume.test_staged_event_set_aside_comes_again_to_its_consumer, form="arrays"),
    ),
    "leave the way to staged events to the planner": Mutation(
        "range_sql",
        "offset 0",
        "",
        consume.test_batch_of_many_stages_reads_nothing_but_their_events,
    ),
    "truncate what waits": Mutation(
        "tick_sees_table",
        "stage_released_by is null or ",
        "",
        rotation.test_table_waits_while_a_commit_is_in_progress,
    ),
    "truncate what the slowest consumer has not had": Mutation(
        "tick_sees_table",
        "coalesce(not txid_visible_in_snapshot(stage_released_by, v_snapshot), true)",
        "stage_released_by is null",
        rotation.test_table_waits_with_its_events_and_until_the_slowest_consumer_had_them,
    ),
    "promise ticks that do not see the commit": Mutation(
        "maint_rotate_tables_step1",
        "if not pgq.tick_sees_table(q.queue_id, v_low, v_next) then",
        "if false then",
        rotation.test_low_tick_sees_the_commits_of_what_was_truncated,
    ),
    "drop nothing": Mutation(
        "drop_stage",
        "set stage_released_by = 0",
        "set stage_released_by = null",
        partial(
            rotation.test_table_waits_no_longer_when_its_events_are_given_up,
            give_up=rotation.GIVE_UP["drop"],
        ),
    ),
    "wait for ever": Mutation(
        "maint_stages",
        "'1 day'",
        "'100 years'",
        partial(
            rotation.test_table_waits_no_longer_when_its_events_are_given_up,
            give_up=rotation.GIVE_UP["a day passes"],
        ),
    ),
    "wait for an epoch that is committed": Mutation(
        "maint_stages",
        "or exists (\n                            select from pgq.ledger",
        "or exists (select from pgq.ledger where false) and exists (select from pgq.ledger",
        partial(
            rotation.test_table_waits_no_longer_when_its_events_are_given_up,
            give_up=rotation.GIVE_UP["another is committed"],
        ),
    ),
    "forget what waited at once": Mutation(
        "maint_stages",
        "and stage_txid < coalesce(",
        "and 0 < coalesce(",
        rotation.test_what_waited_is_remembered_as_long_as_its_events_are_there,
    ),
    "forget it when the current table has none of it": Mutation(
        "maint_stages",
        "pgq.event_table(q.queue_id))\n                using",
        "pgq.event_table(q.queue_id, q.queue_cur_table))\n                using",
        rotation.test_what_waited_in_two_tables_is_remembered_until_both_are_emptied,
    ),
    "forget nothing": Mutation(
        "maint_stages",
        "and stage_txid < coalesce(",
        "and false and stage_txid < coalesce(",
        partial(rotation.test_nothing_is_left_when_all_is_over, seed=20, steps=80),
    ),
    "wait for who commits": Mutation(
        "maint_stages",
        "skip locked",
        "",
        locks.test_maintenance_passes_over_what_somebody_commits,
    ),
    "judge a transaction by its own id": Mutation(
        "open_stage",
        "perform pgq.check_restored(q);",
        "if txid_current() < q.queue_switch_step1 then perform 1 / 0; end if;",
        stages.test_stage_may_be_opened_by_a_transaction_older_than_a_rotation,
    ),
    "commit what was given up": Mutation(
        "commit_stage",
        "and stage_released_by is null;",
        ";",
        partial(locks.test_commit_that_waited_while_its_stage_was_given_up_fails, **dropped),
    ),
    "drop what was committed": Mutation(
        "drop_stage",
        "and stage_released_by is null;",
        ";",
        locks.test_drop_that_waited_for_a_commit_takes_nothing,
    ),
    "commit what is left": Mutation(
        "commit_stage",
        "if v_found <> v_wanted then",
        "if false then",
        partial(locks.test_commit_that_waited_while_its_stage_was_given_up_fails, **dropped),
    ),
    "commit an epoch again": Mutation(
        "commit_stage",
        "where l.ledger_epoch < excluded.ledger_epoch",
        "",
        stages.test_commit_that_rolled_back_is_said_again_and_done_once,
    ),
    "tell no ticker": Mutation(
        "commit_stage",
        "perform nextval(q.queue_event_seq::regclass);",
        "",
        stages.test_ticker_learns_of_a_commit,
    ),
    "commit beside a repair": Mutation(
        "commit_stage",
        "perform pgq.lock_current_table(q);",
        "",
        partial(locks.test_commit_in_the_middle_of_its_call_is_waited_for, whole=locks.REPAIR),
    ),
    "commit beside a drop": Mutation(
        "commit_stage",
        "perform pgq.lock_current_table(q);",
        "",
        partial(locks.test_commit_in_the_middle_of_its_call_is_waited_for, whole=DROP_QUEUE),
    ),
    "give up beside a drop": Mutation(
        "drop_stage",
        "perform pgq.lock_current_table(q);",
        "",
        no_deadlock(locks.CALLS["drop"], locks.CALLS["commit"]),
    ),
    "take a repeated epoch for done whatever it holds": Mutation(
        "commit_stage", "v_done.ledger_fingerprint <> i_fingerprint", "false", other_events
    ),
    "take an epoch before the last for done": Mutation(
        "commit_stage", "v_done.ledger_epoch > i_epoch", "false", gone_back
    ),
    "drop the ledger first": Mutation(
        "drop_queue",
        "q := pgq.lock_queue(x_queue_name);",
        "select * into q from pgq.queue where queue_name = x_queue_name;"
        " delete from pgq.ledger where ledger_queue = q.queue_id;",
        no_deadlock(locks.CALLS["insert"], locks.CALLS["commit"]),
    ),
    "commit only what is older": Mutation(
        "commit_stage",
        "txid_snapshot_xmax(txid_current_snapshot())",
        "0",
        stages.test_stage_may_be_committed_by_a_transaction_older_than_it,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
