"""Take one mechanism of cron entries out, and the test that is there for it has to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_cron as cron
from tests.guarantees import test_cron_upkeep as upkeep
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
    "fire what was not planned": Mutation(
        "fire_cron",
        "and pgq.planned_due(e) is not distinct from i_due",
        "",
        cron.test_planned_time_is_fired_once_and_then_the_next,
    ),
    "plan twice": Mutation(
        "fire_cron",
        "pgq.planned_due(e) is not distinct from i_due",
        "(i_due is null or pgq.planned_due(e) is not distinct from i_due)",
        cron.test_entry_is_planned_once_and_only_ahead,
    ),
    "plan what was before": Mutation(
        "fire_cron",
        "i_next > least(cron_planned, clock_timestamp())",
        "true",
        cron.test_entry_is_planned_once_and_only_ahead,
    ),
    "plan in the past": Mutation(
        "fire_cron",
        "cron_missed = 'all' or i_next > clock_timestamp()",
        "true",
        cron.test_wrong_daemon_adds_no_event_that_was_not_planned,
    ),
    "fire ahead of time": Mutation(
        "fire_cron",
        "and i_time <= clock_timestamp()",
        "",
        cron.test_wrong_daemon_adds_no_event_that_was_not_planned,
    ),
    "fire what a daemon has read before": Mutation(
        "fire_cron",
        "and cron_version = i_version",
        "",
        cron.test_changed_entry_is_not_fired_by_what_a_daemon_read_before,
    ),
    "fire a paused entry": Mutation(
        "fire_cron",
        "and cron_paused is null",
        "",
        cron.test_paused_entry_is_not_fired_nor_made_up_for,
    ),
    "make up for a pause": Mutation(
        "resume_cron",
        "cron_next = null,",
        "",
        cron.test_paused_entry_is_not_fired_nor_made_up_for,
    ),
    "give the event another time": Mutation(
        "fire_cron",
        "insert_row(q.queue_id, null, i_time,",
        "insert_row(q.queue_id, null, now(),",
        cron.test_planned_time_is_fired_once_and_then_the_next,
    ),
    "fire into a copy": Mutation(
        "fire_cron",
        "or pgq.is_unchecked(q)",
        "",
        cron.test_copied_cluster_fires_nothing_before_its_first_tick,
    ),
    "fire into a disabled queue": Mutation(
        "fire_cron",
        "perform pgq.check_insert(",
        "perform concat(",
        cron.test_disabled_queue_gets_nothing_and_the_time_stays_planned,
    ),
    "wait for another daemon": Mutation(
        "fire_cron",
        "SET lock_timeout TO '100ms'",
        "",
        cron.test_second_daemon_does_not_wait_for_long,
    ),
    "believe a clock that ran ahead": Mutation(
        "planned_due",
        "c.cron_planned <= clock_timestamp() + interval '1 minute'",
        "true",
        cron.test_clock_that_ran_ahead_silences_no_entry,
    ),
    "keep the time of another schedule": Mutation(
        "add_cron",
        "(c.cron_schedule, c.cron_timezone) <> (i_schedule, i_timezone)",
        "false",
        cron.test_entry_keeps_its_next_time_unless_its_schedule_changes,
    ),
    "forget the time of the same schedule": Mutation(
        "add_cron",
        "(c.cron_schedule, c.cron_timezone) <> (i_schedule, i_timezone)",
        "true",
        cron.test_entry_keeps_its_next_time_unless_its_schedule_changes,
    ),
    "keep the version": Mutation(
        "add_cron",
        "cron_version = gen_random_uuid()",
        "cron_version = cron_version",
        cron.test_changed_entry_is_not_fired_by_what_a_daemon_read_before,
    ),
    "look for entries once": Mutation(
        "drop_queue",
        "elsif x_force is not true and exists",
        "elsif v_turn = 1 and x_force is not true and exists",
        upkeep.test_entry_that_is_added_meanwhile_is_not_dropped,
    ),
    "leave entries without a queue": Mutation(
        "drop_queue",
        "delete from pgq.cron where cron_queue = q.queue_id;",
        "",
        upkeep.test_queue_with_entries_is_dropped_by_force_only,
    ),
    "change an entry without the queue's lock": Mutation(
        "find_cron",
        "for key share",
        "",
        upkeep.test_drop_waits_for_a_pause_before_it_holds_any_lock,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_is_noticed(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
