"""Take one mechanism of the history out, and the test that is there for it has to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_last_day as day
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

counts = day.test_history_has_rates_lags_and_counts_also_of_what_did_not_change
changed = day.test_row_holds_what_has_changed_and_once_an_hour_everything
since = day.test_history_since_a_time_knows_what_was_before
made = day.test_queues_and_consumers_begin_where_they_were_made
once = day.test_sessions_that_write_at_once_write_one_row
turns = day.test_tables_are_truncated_in_turn_and_a_day_is_always_there
MUTATIONS = {
    "write without a lock": Mutation(
        "maint_history", "lock table only pgq.history in share row exclusive mode;", "", once
    ),
    "write at every call": Mutation(
        "choose_history", "if v_last > i_now - i_pause", "if false", once
    ),
    "write with an old snapshot": Mutation(
        "maint_history",
        "if current_setting('transaction_isolation') <> 'read committed'",
        "if false",
        once,
    ),
    "write all queues each minute": Mutation(
        "maint_history", "or o.seq <> n.seq", "or true", changed
    ),
    "write all consumers each minute": Mutation(
        "maint_history", "is distinct from (o.lag,", "is distinct from (-1,", changed
    ),
    "never write everything again": Mutation(
        "maint_history", "and hist_time > v_now - interval '1 hour'", "", changed
    ),
    "take the first value for the last": Mutation(
        "maint_history", "order by sub, hist_time desc", "order by sub, hist_time", changed
    ),
    "show a lag where nothing is pending": Mutation(
        "maint_history", "when i.pending_events > 0", "when true", counts
    ),
    "write one table for ever": Mutation(
        "choose_history", "table_no := (table_no + 1) % 3;", "", turns
    ),
    "switch without a truncate": Mutation(
        "choose_history",
        "execute format('truncate pgq.%I', 'history_' || (table_no + 1) % 3);",
        "",
        turns,
    ),
    "switch too early": Mutation("choose_history", "'12 hours'", "'6 hours'", turns),
    "begin a table with what has changed": Mutation(
        "choose_history",
        "            is_new := true;",
        "",
        day.test_table_begins_with_a_full_row,
    ),
    "lose a row to a reader": Mutation(
        "choose_history",
        "when lock_not_available then",
        "when division_by_zero then",
        day.test_reader_that_holds_the_next_table_costs_no_row,
    ),
    "wait for a clock that was ahead": Mutation(
        "choose_history",
        "if v_last > i_now + interval '1 hour'",
        "if false",
        day.test_clock_that_was_ahead_does_not_stop_the_history,
    ),
    "write as often for many queues": Mutation(
        "maint_history",
        "* 60 / 1000",
        "* 0 / 1000",
        day.test_many_queues_get_a_row_less_often,
    ),
    "forget what was before": Mutation("get_history", "max(f.hist_time)", "max(v_since)", since),
    "show what was before": Mutation("get_history", "i.hist_time >= v_since and", "", since),
    "forget what did not change": Mutation(
        "get_history", "case when c.sub is not null or m.hist_full then 1 end", "*", counts
    ),
    "take the queue for unchanged": Mutation(
        "get_history", "case when p.place is not null or m.hist_full then 1 end", "*", counts
    ),
    "show consumers of other queues": Mutation("get_history", "sub_queue = v_queue and", "", made),
    "show a queue before it was made": Mutation("get_history", "and i.seq is not null", "", made),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
