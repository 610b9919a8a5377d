"""Take one mechanism of compaction out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_g6_compaction as g6c
from tests.guarantees import test_g6_no_bloat as g6
from tests.guarantees import test_g6_retries as g6r
from tests.guarantees import test_g7_dump as dump
from tests.guarantees import test_g7_moved as moved
from tests.guarantees import test_ranges_kept as kept
from tests.guarantees.mutations import Mutation, expect_failure, held
from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database

before_the_look = partial(
    g6r.test_event_set_aside_by_a_transaction_older_than_the_look_is_found,
    due="now() - interval '1 hour'",
    xid="select txid_current()",
)


def looked(check: Callable[[Database], None]) -> Callable[[Database], None]:
    """Let a check of retries run after a first look."""

    def run(db: Database) -> None:
        g6r.look_first(db)
        check(db)

    return run


def with_an_open_batch(check: Callable[[Database], None]) -> Callable[[Database], None]:
    """Let a check run beside an open batch and the ticks after it."""

    def run(db: Database) -> None:
        g6c.leave_a_batch_open(db)
        check(db)

    return run


MUTATIONS = {
    "keep the plan for few ticks": Mutation(
        "find_batch",
        "SET enable_seqscan TO 'off'",
        "SET enable_seqscan TO 'on'",
        held(g6.test_plans_made_while_there_were_few_ticks_do_for_many),
    ),
    "let positions pile up": Mutation(
        "maint_positions",
        "and pgq.compact_positions()",
        "and false",
        g6c.test_held_xmin_lets_nothing_grow,
    ),
    "let ticks pile up": Mutation(
        "maint_recent_ticks",
        "perform pgq.compact_ticks();",
        "null;",
        g6c.test_held_xmin_lets_nothing_grow,
    ),
    "walk over deleted ticks each time": Mutation(
        "maint_ticks",
        "perform set_config(v_setting, v_keep::text, false);",
        "",
        g6c.test_deleted_ticks_are_walked_over_only_once,
    ),
    "look at positions before the lock": Mutation(
        "lock_for_compaction",
        "execute format('lock table only pgq.%I in access exclusive mode',"
        "\n        (select relname from pg_class where oid = i_table));",
        "",
        partial(
            g6c.test_compaction_that_waited_for_a_worker_keeps_what_it_did,
            compact="compact_positions",
        ),
    ),
    "look at ticks before the lock": Mutation(
        "lock_for_compaction",
        "execute format('lock table only pgq.%I in access exclusive mode',"
        "\n        (select relname from pg_class where oid = i_table));",
        "",
        partial(
            g6c.test_compaction_that_waited_for_a_worker_keeps_what_it_did, compact="compact_ticks"
        ),
    ),
    "thin out what a position refers to": Mutation(
        "compact_ticks",
        "from pgq.used_ticks())",
        "from pgq.used_ticks() where false)",
        g6c.test_compaction_keeps_the_ticks_of_an_open_batch_and_the_last_of_a_second,
    ),
    "thin out the first tick to read from": Mutation(
        "compact_ticks",
        "(q.queue_switch_tick, q.queue_low_tick)",
        "(q.queue_switch_tick)",
        kept.test_compaction_keeps_the_ticks_back_to_which_a_consumer_may_be_moved,
    ),
    "thin out the tick of the last rotation": Mutation(
        "compact_ticks",
        "(q.queue_switch_tick, q.queue_low_tick)",
        "(q.queue_low_tick)",
        kept.test_compaction_keeps_the_ticks_back_to_which_a_consumer_may_be_moved,
    ),
    "take an emptied table for empty": Mutation(
        "check_snapshot",
        "relfilenode <> pg_relation_filenode(oid)",
        "false",
        with_an_open_batch(
            partial(
                g6c.refused_once,
                compact="compact_positions",
                isolation=RR,
                call="select pgq.finish_batch(1)",
            )
        ),
    ),
    "look for a tick with the caller's snapshot": Mutation(
        "find_tick_helper",
        "LANGUAGE plpgsql",
        "LANGUAGE plpgsql STABLE",
        with_an_open_batch(
            partial(g6c.answers_after_waiting, compact="compact_ticks", call=g6c.FIND_TICK)
        ),
    ),
    "let a dump take an emptied table for empty": Mutation(
        "lock_for_compaction",
        "perform pgq.count_truncation();",
        "",
        partial(dump.test_dump_that_begins_beside_a_compaction_fails, compact="compact_positions"),
    ),
    "leave a mark that a restore has left": Mutation(
        "count_truncation",
        "v_marks[2:]",
        "v_marks[3:]",
        partial(
            dump.test_mark_that_a_restore_has_left_goes_with_the_next_compaction,
            compact="compact_positions",
        ),
    ),
    "let a dump take a rotated table for empty": Mutation(
        "maint_rotate_tables_step1",
        "perform pgq.count_truncation();",
        "null;",
        dump.test_dump_that_begins_beside_a_rotation_fails,
    ),
    "fail a dump beside rotations of empty tables": Mutation(
        "maint_rotate_tables_step1",
        "v_has_rows := pg_relation_size(('pgq.' || v_table)::regclass) > 0;",
        "v_has_rows := true;",
        dump.test_dump_that_begins_beside_rotations_of_empty_tables_goes_on,
    ),
    "rotate beside an upgrade that has locked the mark": Mutation(
        "maint_rotate_tables_step1",
        "perform pgq.lock_truncation_mark();",
        "null;",
        dump.test_upgrade_that_has_locked_the_mark_puts_a_rotation_off,
    ),
    "fail beside another rotation": Mutation(
        "maint_rotate_tables_step1",
        "exception when lock_not_available then",
        "exception when undefined_column then",
        dump.test_rotation_gives_way_to_a_session_that_has_its_table,
    ),
    "wait for a dump with a rotation": Mutation(
        "maint_rotate_tables_step1",
        " or pgq.dump_is_running() then",
        " then",
        partial(
            dump.test_nothing_waits_for_the_locks_of_a_dump, call="maint_rotate_tables_step1('q')"
        ),
    ),
    "wait for a dump with a compaction": Mutation(
        "lock_for_compaction",
        "if pgq.dump_is_running() then",
        "if false then",
        partial(dump.test_nothing_waits_for_the_locks_of_a_dump, call="compact_positions()"),
    ),
    "let a dump take a repaired table for empty": Mutation(
        "repair_queue",
        "perform pgq.count_truncation();",
        "",
        dump.test_dump_that_begins_beside_a_repair_fails,
    ),
    "tick a queue whose ticks have yet to be restored": Mutation(
        "insert_tick",
        "perform pgq.raise_no_tick(q.queue_name);",
        "null;",
        partial(
            moved.test_queue_whose_ticks_a_restore_has_yet_to_bring_gets_none,
            call="tick_queue('q')",
        ),
    ),
    "trust the ticks that came after the first one": Mutation(
        "insert_tick",
        "perform pgq.check_tick_order(q, last, insert_tick.tick_snapshot);",
        "",
        moved.test_ticks_that_a_restore_brings_behind_the_first_tick_are_noticed,
    ),
    "repair a queue whose ticks have yet to be restored": Mutation(
        "repair_queue",
        "perform pgq.raise_no_tick(i_queue_name);",
        "",
        partial(
            moved.test_queue_whose_ticks_a_restore_has_yet_to_bring_gets_none,
            call="repair_queue('q')",
        ),
    ),
    "walk over moved retries each time": Mutation(
        "maint_retry_events",
        "perform pgq.note_look(v_setting, v_snapshot)",
        "perform 1",
        looked(g6r.test_look_reads_no_more_pages_after_many_retries_while_xmin_is_held),
    ),
    "forget the transactions that began after the look": Mutation(
        "due_retries",
        "where ev_txid >= i_xmax and",
        "where false and",
        looked(g6r.test_event_set_aside_for_a_time_before_the_look_is_found),
    ),
    "forget the transactions in progress at the look": Mutation(
        "due_retries",
        "where ev_txid = any (i_xip) and",
        "where false and",
        looked(before_the_look),
    ),
    "forget the transaction that looks": Mutation(
        "note_look",
        "union select v_own where v_own is not null",
        "",
        looked(
            partial(g6r.test_event_set_aside_after_the_look_in_its_transaction_is_found, first=True)
        ),
    ),
    "read the events of transactions in progress": Mutation(
        "parse_look",
        "where txid_visible_in_snapshot(xid, v_now)",
        "where true",
        looked(g6r.test_look_reads_no_events_of_transactions_in_progress),
    ),
    "take what is left for moved": Mutation(
        "maint_retry_events",
        "where txid_visible_in_snapshot(ev_txid, v_snapshot)",
        "where false",
        looked(g6r.test_events_that_somebody_else_moves_are_found_when_that_fails),
    ),
    "take another table for the one looked at": Mutation(
        "look_setting",
        "pg_relation_filenode(format('pgq.%I', i_table)::regclass)",
        "1",
        looked(g6r.test_table_that_came_with_a_dump_is_looked_at_whole),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
