"""Take one mechanism of ranges out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_g1_row_security as row_security
from tests.guarantees import test_ranges as ranges
from tests.guarantees import test_ranges_kept as kept
from tests.guarantees import test_ranges_owner as owner
from tests.guarantees import test_ranges_rotation as rotation
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.ranges import ADVANCE, PIN
from tests.guarantees.sessions import RC, RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

LOCK = "perform pgq.lock_event_tables(i_queue_name);"
FIND = """perform pgq.check_moved(pgq.find_queue(i_queue_name));
    select * into r from pgq.find_range(i_queue_name, i_from_tick, i_to_tick);"""
MUTATIONS = {
    "let row-level security hide events": Mutation(
        "range_sql",
        "if v_hides then",
        "if false then",
        partial(row_security.test_hidden_event_is_an_error, read="batch_event_sql"),
    ),
    "thin pinned ticks out": Mutation(
        "used_ticks", "|| p.pos_pins", "", kept.test_pinned_ticks_are_not_thinned_out
    ),
    "repair without pins": Mutation(
        "used_ticks", "|| p.pos_pins", "", kept.test_pins_outlive_a_repair
    ),
    "let pins ahead go": Mutation(
        "advance_subscription",
        "pin > i_to_tick",
        "false",
        kept.test_pins_ahead_outlive_an_advance,
    ),
    "pin without a look at the ticks": Mutation(
        "pin_range",
        "perform pgq.find_range(i_queue_name, i_from_tick, i_to_tick);",
        "",
        partial(kept.test_compaction_is_put_off_while_somebody_takes_a_tick, call=PIN),
    ),
    "advance without a look at the ticks": Mutation(
        "advance_subscription",
        "perform pgq.find_range(i_queue_name, i_from_tick, i_to_tick);",
        "",
        partial(kept.test_compaction_is_put_off_while_somebody_takes_a_tick, call=ADVANCE),
    ),
    "rotate past a subscription that advances": Mutation(
        "slowest_tick",
        "(select min(pos_last_tick) from",
        "(select null::bigint from",
        kept.test_rotation_takes_nothing_that_the_subscription_has_not_passed,
    ),
    "advance without the lock": Mutation(
        "lock_subscription",
        "for no key update",
        "",
        owner.test_of_two_that_advance_at_once_one_wins,
    ),
    "advance from anywhere": Mutation(
        "advance_subscription",
        "p.pos_last_tick in (i_from_tick, i_to_tick) is not true",
        "false",
        owner.test_of_two_that_advance_at_once_one_wins,
    ),
    "pin behind the position": Mutation(
        "pin_range",
        "p.pos_last_tick <= i_from_tick is not true",
        "false",
        owner.test_pin_that_waited_for_an_advance_is_refused,
    ),
    "believe an old snapshot": Mutation(
        "lock_subscription",
        "perform pgq.check_newest_position(p);",
        "",
        partial(
            owner.test_old_snapshot_is_not_told_that_nothing_has_to_be_done,
            isolation=RR,
            call=PIN,
            last=3,
        ),
    ),
    "read without the lock": Mutation(
        "tick_event_sql",
        LOCK,
        "",
        partial(rotation.test_rotation_waits_for_who_asked_for_a_range, isolation=RC),
    ),
    "look before the lock": Mutation(
        "tick_event_sql",
        f"{LOCK}\n    {FIND}",
        f"{FIND}\n    {LOCK}",
        partial(
            rotation.test_reader_that_waited_for_a_rotation_is_told_what_is_left,
            call=rotation.COUNT,
        ),
    ),
    "read what is left of a range": Mutation(
        "find_range",
        "if i_from_tick < q.queue_low_tick or",
        "if",
        partial(
            rotation.test_reader_that_waited_for_a_rotation_is_told_what_is_left,
            call=rotation.COUNT,
        ),
    ),
    "read a truncated table with an old snapshot": Mutation(
        "lock_event_tables",
        "relfilenode <> pg_relation_filenode(oid)",
        "false",
        partial(rotation.test_snapshot_from_before_a_rotation_is_refused, isolation=RR),
    ),
    "give retries to everybody": Mutation(
        "range_sql",
        "where (ev_owner is null'",
        "where (true'",
        ranges.test_retried_events_belong_to_no_range,
    ),
    "forget who was in progress": Mutation(
        "range_sql",
        "if v_late <> '{}' then",
        "if false then",
        partial(ranges.test_ranges_are_the_batches_whatever_overlaps_them, seed=0),
    ),
    "take who was in progress for done": Mutation(
        "range_sql",
        "if exists (select from txid_snapshot_xip",
        "if false and exists (select from txid_snapshot_xip",
        partial(ranges.test_ranges_are_the_batches_whatever_overlaps_them, seed=0),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
