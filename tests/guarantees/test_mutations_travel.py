"""Mutations of seek and retention: without a mechanism, its test fails."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_g7_unrepaired as unrepaired
from tests.guarantees import test_reader_races as readers
from tests.guarantees import test_retention as retention
from tests.guarantees import test_retention_races as pairs
from tests.guarantees import test_seek as seek
from tests.guarantees import test_seek_races as races
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

STAY = partial(retention.test_events_stay_for_the_retention_and_not_for_ever, consumers=("c",))
WAITS = retention.test_rotation_waits_until_the_events_are_old_enough
MUTATIONS = {
    "go to the last earlier tick": Mutation(
        "get_tick_at",
        "tick_time > i_time\n     order by tick_id limit 1;",
        "tick_id > (select max(tick_id) from pgq.tick where tick_time <= i_time)\n"
        "     order by tick_id limit 1;",
        seek.test_time_is_the_tick_before_the_first_later_one,
    ),
    "move a stream": Mutation(
        "seek_consumer",
        "elsif pgq.reads_by_ticks(p) then",
        "elsif false then",
        seek.test_stream_is_not_moved_whether_it_has_a_range_or_not,
    ),
    "move in a queue that waits for repair": Mutation(
        "seek_consumer",
        "perform pgq.check_moved(q);",
        "",
        partial(
            unrepaired.test_queue_of_a_restored_dump_is_neither_read_nor_sought_until_repaired,
            restore=unrepaired.larger,
        ),
    ),
    "go beyond what is left": Mutation(
        "seek_consumer",
        "tick_id = v_place and tick_id >= v_first.tick_id limit 1",
        "tick_id = v_place limit 1",
        seek.test_place_that_cannot_be_reached_is_refused_with_the_earliest,
    ),
    "look for the tick before the lock": Mutation(
        "seek_consumer",
        "select * into q from pgq.queue where queue_name = i_queue_name for key share;",
        "select * into q from pgq.queue where queue_name = i_queue_name;",
        races.test_seek_that_waited_for_a_rotation_goes_to_what_is_left,
    ),
    "lock workers after the delete": Mutation(
        "seek_consumer",
        "perform from pgq.registration where sub_parent = p.sub_id order by sub_id for update;",
        "",
        partial(races.test_event_that_is_being_retried_is_dropped_too, how="worker"),
    ),
    "let event_retry_raw go on": Mutation(
        "seek_consumer",
        "perform from pgq.registration where sub_id = p.sub_id for update;",
        "perform from pgq.registration where sub_id = p.sub_id for no key update;",
        partial(races.test_event_that_is_being_retried_is_dropped_too, how="raw"),
    ),
    "keep retried copies": Mutation(
        "range_sql",
        "|| coalesce(v_dropped, '')",
        "",
        partial(
            seek.test_retries_of_what_comes_again_are_dropped,
            discard=True,
            waiting=None,
            again=["b"],
        ),
    ),
    "drop retried copies of events from before the place": Mutation(
        "range_sql",
        "format(' and not (ev_id operator(pg_catalog.>) %L and",
        "format(' and not (%L > 0 and",
        partial(
            seek.test_retries_of_what_comes_again_are_dropped,
            discard=False,
            waiting=["a"],
            again=["b", "a"],
        ),
    ),
    "bound dropped copies by their xid": Mutation(
        "range_sql",
        "pg_catalog.txid_visible_in_snapshot('\n                   "
        "'ev_txid, %L::pg_catalog.txid_snapshot))'",
        "ev_txid < pg_catalog.txid_snapshot_xmax('\n                   "
        "'%L::pg_catalog.txid_snapshot))'",
        races.test_move_of_retries_that_began_before_brings_what_is_retried_after,
    ),
    "count one's own copies as seen": Mutation(
        "seek_consumer",
        "pgq.exclude_own_xid(txid_current_snapshot())",
        "concat(txid_current() + 1, ':', txid_current() + 1, ':')::txid_snapshot",
        races.test_transaction_that_seeks_may_move_retries_too,
    ),
    "keep parked events": Mutation(
        "seek_consumer",
        "delete from pgq.parked where ev_owner = p.sub_id;",
        "delete from pgq.parked where ev_owner = p.sub_id and false;",
        partial(seek.test_parked_events_that_come_again_are_dropped, discard=True, left=[]),
    ),
    "repair dropped copies too": Mutation(
        "repair_queue",
        "and txid_visible_in_snapshot(e.ev_txid, dropped)",
        "and false",
        seek.test_repair_forgets_what_a_seek_dropped,
    ),
    "remember what was dropped after a repair": Mutation(
        "repair_queue",
        "update pgq.registration set sub_dropped = null, sub_dropped_above = null",
        "update pgq.registration set sub_filter = sub_filter",
        seek.test_repair_forgets_what_a_seek_dropped,
    ),
    "rotate whatever the retention": Mutation(
        "maint_rotate_tables_step1",
        "least(pgq.slowest_tick(q.queue_id), v_retained)",
        "pgq.slowest_tick(q.queue_id)",
        partial(WAITS, clock="0"),
    ),
    "overlook a retention that is new": Mutation(
        "maint_rotate_tables_step1",
        "or q.queue_retention is distinct from v_retention",
        "",
        retention.test_retention_that_is_set_while_a_rotation_begins_holds,
    ),
    "keep everything for ever": Mutation(
        "retained_tick",
        "and tick_time <= c_bound",
        "and false",
        partial(STAY, ahead=False),
    ),
    "wait for the clock": Mutation(
        "retained_tick",
        "and tick_time <= clock_timestamp()",
        "",
        partial(STAY, ahead=True),
    ),
    "take young events for old ones": Mutation(
        "retained_tick",
        "and tick_id < coalesce(v_younger, 9223372036854775807)",
        "",
        partial(WAITS, clock="-1 day"),
    ),
    "move a reader of ticks that begins": Mutation(
        "seek_consumer",
        "perform from pgq.registration where sub_id = p.sub_id for update;",
        "",
        partial(
            readers.test_seek_that_waited_for_a_reader_of_ticks_is_refused,
            call="pin_range",
            end="commit",
        ),
    ),
    "read behind a seek": Mutation(
        "advance_subscription",
        "or p.pos_last_tick in (i_from_tick, i_to_tick) is not true",
        "",
        partial(
            readers.test_reader_of_ticks_that_waited_for_a_seek_finds_the_consumer_elsewhere,
            call="advance_subscription",
            end="commit",
        ),
    ),
    "rotate past a reader of ticks": Mutation(
        "maint_rotate_tables_step1",
        "least(pgq.slowest_tick(q.queue_id), v_retained)",
        "coalesce(v_retained, (select max(tick_id) from pgq.tick))",
        partial(
            readers.test_rotation_and_the_end_of_a_retention_leave_a_reader_of_ticks_its_range,
            end="rollback",
        ),
    ),
    "look for consumers before the lock only": Mutation(
        "maint_rotate_tables_step1",
        "    v_slowest := least(pgq.slowest_tick(q.queue_id), v_retained);\n    if q.",
        "    if q.",
        pairs.test_seek_and_the_end_of_a_retention_while_a_rotation_begins,
    ),
    "change a queue without its lock": Mutation(
        "set_queue_config",
        "where queue_name = x_queue_name for update;",
        "where queue_name = x_queue_name;",
        partial(pairs.test_seek_that_waited_for_a_retention_finds_what_it_keeps, end="commit"),
    ),
    "rotate without the queue's lock": Mutation(
        "maint_rotate_tables_step1",
        "where queue_id = q.queue_id for update;",
        "where queue_id = q.queue_id;",
        partial(pairs.test_rotation_does_nothing_beside_a_retention, end="commit"),
    ),
    "forget cancellations that a retention keeps": Mutation(
        "maint_skipped_events",
        "tick_id >= q.queue_low_tick",
        "tick_id >= (select max(tick_id) from pgq.tick)",
        partial(
            pairs.test_what_is_cancelled_beside_a_retention_stays_hidden_while_it_is_kept,
            begins="retention",
            end="commit",
        ),
    ),
    "forget the retention of what a detached consumer left": Mutation(
        "maint_rotate_tables_step1",
        "least(pgq.slowest_tick(q.queue_id), v_retained)",
        "pgq.slowest_tick(q.queue_id)",
        pairs.test_retention_that_is_set_while_a_detach_looks_keeps_the_events,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
