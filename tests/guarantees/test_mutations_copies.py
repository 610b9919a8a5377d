"""Take one mechanism that knows of copies of a database out: its test has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_g7_copies as copies
from tests.guarantees import test_g7_unrepaired_calls as calls
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.test_g7_unrepaired import larger

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

STALE = copies.test_copy_with_old_values_of_sequences_gives_no_id_twice
MUTATIONS = {
    "tick over ids that were used before": Mutation(
        "check_tick_order",
        "v_moved and pgq.ids_are_repeated(q)",
        "false",
        partial(STALE, larger=0, inserted=3),
    ),
    "look for ids that stand twice only": Mutation(
        "ids_are_repeated",
        "v_last > pgq.seq_getval(q.queue_event_seq)",
        "false",
        partial(STALE, larger=0, inserted=0),
    ),
    "look at the sequence only": Mutation(
        "ids_are_repeated",
        "coalesce(v_repeated, false)",
        "false",
        partial(STALE, larger=0, inserted=3),
    ),
    "repair without a look at ids": Mutation(
        "repair_queue",
        "or pgq.ids_are_repeated(q)",
        "",
        partial(STALE, larger=1_000_000, inserted=3),
    ),
    "keep an id that stands twice": Mutation(
        "find_inserted_here",
        "order by is_sure, is_late, row_txid) > 1",
        "order by is_sure, is_late, row_txid) > 2",
        partial(STALE, larger=0, inserted=3),
    ),
    "tell events of the copy by their time": Mutation(
        "find_inserted_here",
        "is_own and (ev_txid > $2 or ev_txid = row_txid and ev_txid > since)",
        "false",
        copies.test_events_of_a_copy_are_told_whatever_their_time_is,
    ),
    "take rows with ids of later transactions for new": Mutation(
        "find_inserted_here",
        "ev_txid <= row_txid\n",
        "true\n",
        copies.test_events_of_a_copy_are_told_whatever_their_time_is,
    ),
    "take a savepoint's events for copied ones": Mutation(
        "find_inserted_here",
        "ev_txid > $2 or ev_txid = row_txid and ev_txid > since",
        "ev_txid = row_txid and ev_txid > since",
        copies.test_events_of_a_copy_are_told_whatever_their_time_is,
    ),
    "take the source's own rows for new": Mutation(
        "find_inserted_here",
        "ev_txid = row_txid and ev_txid > since",
        "ev_txid = row_txid",
        copies.test_physical_copy_that_was_replicated_further_delivers_nothing_again,
    ),
    "take rows that were copied together for new": Mutation(
        "find_inserted_here",
        "min(ev_txid) over by_writer = max(ev_txid) over by_writer",
        "true",
        copies.test_rows_that_one_transaction_copied_are_no_new_events,
    ),
    "look at the last tick's row only": Mutation(
        "find_inserted_here",
        "least($2, min(row_txid))",
        "$2",
        copies.test_events_are_told_after_the_last_tick_was_compacted,
    ),
    "never look at the time": Mutation(
        "find_inserted_here",
        "is_own and ev_time > $3",
        "false and ev_time > $3",
        copies.test_events_that_nothing_but_their_time_tells_are_counted,
    ),
    "count nothing": Mutation(
        "repair_queue",
        "if v_doubts <> '{0,0}' then",
        "if false then",
        copies.test_events_that_nothing_but_their_time_tells_are_counted,
    ),
    "let a stage of the source hide new events": Mutation(
        "repair_queue",
        "and here.is_new is not true",
        "",
        copies.test_stage_of_the_source_hides_no_event_of_the_copy,
    ),
    "insert with an older id before the ticks are restored": Mutation(
        "check_restored",
        "if v_last is null then",
        "if false then",
        calls.test_event_with_an_older_id_waits_for_the_ticks_of_a_restore,
    ),
    "insert with an older id in a queue that waits for repair": Mutation(
        "insert_event_raw",
        "perform pgq.check_restored(q);",
        "",
        partial(calls.test_event_with_an_older_id_waits_for_the_repair, restore=larger),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
