"""Take one mechanism of cancellations out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_cancel as cancels
from tests.guarantees import test_cancel_delayed as delayed
from tests.guarantees import test_cancel_open as opened
from tests.guarantees import test_cancel_parked as parked
from tests.guarantees import test_cancel_races as races
from tests.guarantees import test_cancel_snapshots as snapshots
from tests.guarantees import test_cancel_upkeep as upkeep
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

OPENED_FIRST = races.test_batch_that_is_opened_first_decides
PINS = "array(select pin from unnest(p.pos_pins) pin where pin > i_to_tick order by pin)"
MUTATIONS = {
    "hide nothing": Mutation(
        "range_sql",
        "if v_skips or",
        "if false and v_skips or",
        cancels.test_event_is_hidden_from_those_that_have_not_had_it,
    ),
    "hide nothing of late transactions": Mutation(
        "range_sql",
        "least(v_first, v_late[1])",
        "v_first",
        cancels.test_event_of_a_late_transaction_is_found_and_hidden,
    ),
    "hide nothing of stages": Mutation(
        "range_sql",
        "skip_txid = any (v_released)",
        "false",
        cancels.test_stage_is_hidden_before_and_after_its_release,
    ),
    "hide all that has the id": Mutation(
        "range_sql",
        "'and skip_txid operator(pg_catalog.=) ev_txid '",
        "''",
        cancels.test_retried_copy_is_removed_and_hidden,
    ),
    "change an open batch": Mutation(
        "find_pending_events",
        "coalesce(p.pos_next_tick, p.pos_last_tick)",
        "p.pos_last_tick",
        opened.test_event_that_is_finished_in_an_open_batch_is_delivered,
    ),
    "ask all lanes": Mutation(
        "find_pending_events",
        "coalesce(pgq.lane_sql(p.sub_filter -> 'lane'), 'true')",
        "'true'",
        cancels.test_lane_hides_what_it_has_not_opened_whatever_other_lanes_have,
    ),
    "take a stage that waits for delivered": Mutation(
        "find_pending_events",
        "else stage_released_by end",
        "else ev_txid end",
        cancels.test_stage_is_hidden_before_and_after_its_release,
    ),
    "find events of dropped stages": Mutation(
        "find_events_by_id",
        "stage_released_by = 0",
        "false",
        cancels.test_stage_is_hidden_before_and_after_its_release,
    ),
    "look in the range of ticks only": Mutation(
        "find_events_by_id",
        "array(select txid_snapshot_xip(i_snapshot))",
        "'{}'::bigint[]",
        cancels.test_event_of_a_late_transaction_is_found_and_hidden,
    ),
    "begin to look at the last id": Mutation(
        "hide_events",
        "tick_event_seq < v_missing[1]",
        "tick_event_seq < v_missing[cardinality(v_missing)]",
        cancels.test_open_batch_does_not_change,
    ),
    "look once": Mutation(
        "hide_from_consumer",
        "|| pgq.find_events_by_id(r.sub_queue, i_since, i_ids)",
        "",
        races.test_copy_that_is_being_moved_is_waited_for_and_hidden,
    ),
    "look once for later consumers": Mutation(
        "hide_events",
        "|| pgq.find_events_by_id(q.queue_id, v_since, v_ids)",
        "",
        races.test_event_that_commits_while_the_cancellation_waits_is_found,
    ),
    "lock nobody": Mutation(
        "lock_consumers",
        "for no key update",
        "for key share",
        partial(OPENED_FIRST, way="plain", end="commit"),
    ),
    "lock no lanes": Mutation(
        "lock_consumers",
        "sub_mode = 'lane'",
        "false",
        partial(OPENED_FIRST, way="lane", end="commit"),
    ),
    "hold all while one is waited for": Mutation(
        "lock_consumers",
        "c_soon constant text := '10ms'",
        "c_soon constant text := '0'",
        races.test_consumers_go_on_while_a_cancellation_waits_for_a_slow_one,
    ),
    "open with an older snapshot": Mutation(
        "next_batch_custom",
        "perform pgq.mark_skips(r.sub_id);",
        "null;",
        partial(
            snapshots.test_older_snapshot_that_has_finished_a_batch_opens_no_other, isolation=RR
        ),
    ),
    "forget the newest number": Mutation(
        "maint_skipped_events",
        "skip_no < r.newest",
        "true",
        snapshots.test_older_snapshot_notices_though_older_cancellations_are_forgotten,
    ),
    "forget that somebody registered": Mutation(
        "mark_skips",
        "case when i_sub < 0 then txid_current() else 0 end",
        "0",
        partial(
            snapshots.test_older_snapshot_registers_no_consumer_after_rows_are_forgotten,
            isolation=RR,
        ),
    ),
    "forget stages that wait": Mutation(
        "maint_skipped_events",
        "txid_visible_in_snapshot(stage_released_by, r.low) is not true",
        "false",
        upkeep.test_row_of_a_stage_that_waits_stays,
    ),
    "forget too early": Mutation(
        "maint_skipped_events",
        "tick_id >= q.queue_low_tick",
        "tick_id >= (select max(tick_id) from pgq.tick)",
        upkeep.test_rows_go_when_nobody_can_be_moved_back_to_them,
    ),
    "register beside a cancellation": Mutation(
        "register_consumer_at",
        "perform pgq.mark_skips(-q.queue_id);",
        "null;",
        partial(races.test_cancellation_waits_for_a_consumer_that_registers, end="commit"),
    ),
    "cancel beside a registration": Mutation(
        "hide_events",
        "perform pgq.mark_skips(-q.queue_id);",
        "null;",
        partial(races.test_cancellation_waits_for_a_consumer_that_registers, end="commit"),
    ),
    "hide nothing from later consumers": Mutation(
        "copy_skips",
        "where skip_sub = -i_queue_id",
        "where false",
        cancels.test_consumer_that_comes_later_does_not_get_it,
    ),
    "leave delayed events": Mutation(
        "remove_delayed",
        "where ev_queue",
        "where false and ev_queue",
        delayed.test_delayed_event_is_removed_and_waits_for_no_consumer,
    ),
    "lock consumers for delayed events": Mutation(
        "hide_events",
        "v_ids := array(select unnest(v_ids) except select unnest(v_delayed));",
        "null;",
        delayed.test_delayed_event_is_removed_and_waits_for_no_consumer,
    ),
    "leave retried copies": Mutation(
        "remove_waiting",
        "where ev_owner = i_owner and ev_id = any (i_ids) and ev_id <> all (i_open)",
        "where false",
        cancels.test_retried_copy_is_removed_and_hidden,
    ),
    "remove what a handler has": Mutation(
        "remove_waiting",
        "and ev_id <> all (held)",
        "",
        cancels.test_parked_event_is_removed_and_its_key_goes_on,
    ),
    "leave a key without a head": Mutation(
        "remove_waiting",
        "and park_after is null",
        "and false",
        cancels.test_parked_event_is_removed_and_its_key_goes_on,
    ),
    "forget that it is read by ticks": Mutation(
        "advance_subscription",
        PINS,
        f"nullif({PINS}, '{{}}')",
        cancels.test_reader_of_ticks_gets_what_its_ranges_have,
    ),
    "hide from a reader of ticks": Mutation(
        "hide_from_consumer",
        "if v_by_ticks is not true then",
        "if true then",
        cancels.test_reader_of_ticks_gets_what_its_ranges_have,
    ),
    "take a stream for a consumer": Mutation(
        "advance_subscription",
        "if p.pos_pins is null then",
        "if false then",
        cancels.test_stream_that_runs_and_has_not_read_yet_reads_by_ticks,
    ),
    "repair without cancellations": Mutation(
        "repair_queue",
        "set skip_txid = coalesce(kept.txid, 0)",
        "set skip_txid = 0",
        upkeep.test_cancellation_survives_a_repair,
    ),
    "repair cancelled copies too": Mutation(
        "repair_queue",
        "where skip_sub = e.ev_owner and",
        "where false and",
        upkeep.test_cancelled_retry_hides_neither_its_event_nor_another_retry_after_a_repair,
    ),
    "give a copy the txid of its event": Mutation(
        "repair_queue",
        "+ (ev_owner is not null)::int",
        "",
        upkeep.test_cancelled_event_does_not_hide_its_revived_copy_after_a_repair,
    ),
    "take parked events beside a cancellation": Mutation(
        "lock_subscription",
        "for no key update;",
        "for key share;",
        partial(parked.test_parked_events_are_taken_as_a_cancellation_leaves_them, end="commit"),
    ),
    "take parked events of a lane beside a cancellation": Mutation(
        "take_parked_lane",
        "for no key update skip locked",
        "for key share skip locked",
        partial(
            parked.test_parked_events_of_a_lane_are_not_taken_beside_a_cancellation, end="commit"
        ),
    ),
    "leave rows without a consumer": Mutation(
        "remove_registration",
        "delete from pgq.skipped_event where skip_sub = r.sub_id;",
        "",
        upkeep.test_rows_go_with_their_consumer_and_their_queue,
    ),
    "leave rows without a queue": Mutation(
        "drop_queue",
        "delete from pgq.skipped_event where skip_sub = -q.queue_id;",
        "",
        upkeep.test_rows_go_with_their_consumer_and_their_queue,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_is_noticed(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
