"""Take one mechanism of registrations, modes and leases out: the test for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_messages as messages
from tests.guarantees import test_shared_leased as leased
from tests.guarantees import test_shared_leases as leases
from tests.guarantees import test_shared_parts as parts
from tests.guarantees import test_shared_registration as registration
from tests.guarantees import test_shared_takeover as takeover
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import RR
from tests.guarantees.workers import AWAY

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

opened = registration.test_events_of_a_batch_that_the_consumer_has_open_go_to_nobody_else
whole = registration.test_consumer_that_was_shared_once_is_not_read_as_a_whole
changed = registration.test_mode_that_changes_meanwhile_is_seen
removed = registration.test_worker_is_not_removed_with_its_range
named = registration.test_consumer_with_the_name_of_a_worker_is_none
idle = registration.test_idle_worker_writes_its_token_once_and_a_busy_one_no_mode
lasts = leases.test_lease_lasts_whatever_its_run_tells
keeps = leases.test_worker_keeps_to_the_ids_of_a_lease_whatever_its_run_tells
copied = leases.test_event_and_its_retried_copy_are_one_message
KEEPS_LEASE, KEEPS_IDS = "x_until => p.pos_until, ", ", x_ids => p.pos_ids"
MUTATIONS = {
    "give a batch of the consumer to a worker": Mutation(
        "find_shared",
        "elsif p.pos_batch is not null then",
        "elsif false then",
        partial(opened, taker="worker"),
    ),
    "give a batch of the consumer to a receiver": Mutation(
        "find_shared",
        "elsif p.pos_batch is not null then",
        "elsif false then",
        partial(opened, taker="receiver"),
    ),
    "leave the mode open beside workers": Mutation(
        "take_part",
        "where sub_id = p.sub_id and sub_mode is null",
        "where false",
        partial(whole, taker="worker"),
    ),
    "leave the mode open beside receivers": Mutation(
        "receive",
        "where sub_id = p.sub_id and sub_mode is null",
        "where false",
        partial(whole, taker="receiver"),
    ),
    "believe the mode of the first look": Mutation(
        "take_part",
        "        p := pgq.find_shared(i_queue_name, i_consumer_name);",
        "        if not v_locked then p := pgq.find_shared(i_queue_name, i_consumer_name); end if;",
        partial(changed, taker="worker"),
    ),
    "lease by the mode of the first look": Mutation(
        "receive",
        "for no key update;\n    p := pgq.find_shared(i_queue_name, i_consumer_name);",
        "for no key update;",
        partial(changed, taker="receiver"),
    ),
    "change the mode beside a lease": Mutation(
        "set_consumer_mode",
        "where sub_id = v_sub for no key update",
        "where sub_id = v_sub",
        partial(
            registration.test_mode_does_not_change_beside_a_range_that_is_being_taken,
            taker="receiver",
        ),
    ),
    "remove a worker with its range": Mutation(
        "check_removable",
        "if v_batch is not null and",
        "if false and",
        partial(removed, call=registration.REMOVE),
    ),
    "remove a worker that is idle": Mutation(
        "check_removable",
        "elsif not pgq.holder_is_dead(r.sub_id, '', null, now(), null)",
        "elsif false",
        partial(registration.test_idle_worker_is_not_removed, call=registration.REMOVE),
    ),
    "remove a worker by an older snapshot": Mutation(
        "check_removable",
        "perform pgq.check_newest_position(p)",
        "perform 1",
        partial(
            registration.test_older_snapshot_removes_no_worker_with_its_range,
            isolation=RR,
            call=registration.REMOVE,
            taken="after the snapshot",
        ),
    ),
    "remove a worker by a snapshot from before a compaction": Mutation(
        "check_removable",
        "perform pgq.check_snapshot();",
        "",
        partial(
            registration.test_older_snapshot_removes_no_worker_with_its_range,
            isolation=RR,
            call=registration.REMOVE,
            taken="before a compaction",
        ),
    ),
    "remove a running worker by force": Mutation(
        "check_removable",
        "elsif not pgq",
        "elsif not i_drop_batch and not pgq",
        partial(registration.test_idle_worker_is_not_removed, call=registration.DROP),
    ),
    "remove a worker beside its take": Mutation(
        "unregister_subconsumer",
        "       for update;\n    if not found",
        "       ;\n    if not found",
        partial(removed, call=registration.REMOVE),
    ),
    "unregister a worker with its range": Mutation(
        "unregister_consumer",
        "perform pgq.check_removable(r, false);",
        "null;",
        partial(removed, call=registration.UNREGISTER),
    ),
    "unregister a worker beside its take": Mutation(
        "unregister_consumer",
        "for update of s;",
        ";",
        partial(removed, call=registration.UNREGISTER),
    ),
    "believe the first look at the dead": Mutation(
        "take_part",
        "d := pgq.lock_free_range(p.sub_id, i_dead_interval);",
        "null;",
        registration.test_dead_worker_is_looked_at_again_when_it_is_locked,
    ),
    "take any consumer for a worker": Mutation(
        "take_part", "and s.sub_parent = p.sub_id", "", named
    ),
    "register what another consumer is": Mutation(
        "register_subconsumer", "elsif r.sub_parent is distinct from p.sub_id", "elsif false", named
    ),
    "round the share of many workers down to nothing": Mutation(
        "take_part",
        "cardinality(v_cuts) + 1.0",
        "cardinality(v_cuts) + 1",
        parts.test_more_workers_than_parts_get_a_part_each_as_long_as_there_are_parts,
    ),
    "lock what is registered": Mutation(
        "register_subconsumer",
        "if pgq.find_subconsumer(",
        "if false and pgq.find_subconsumer(",
        registration.test_worker_that_is_registered_already_is_not_waited_for,
    ),
    "show a token over a range": Mutation(
        "show_holder",
        "and pos_batch is null",
        "",
        registration.test_token_that_is_shown_late_leaves_the_range,
    ),
    "write a token at each look": Mutation(
        "take_part", "if w.pos_holder is distinct from i_holder and", "if", idle
    ),
    "write the mode at each claim": Mutation("take_part", "and sub_mode is null", "", idle),
    "resume without a lock": Mutation(
        "resume_part",
        "where sub_id = i_worker for no key update",
        "where sub_id = i_worker",
        takeover.test_range_that_was_finished_meanwhile_is_not_resumed,
    ),
    "take without a lease": Mutation(
        "take_part",
        "x_until => v_until,",
        "",
        partial(
            takeover.test_holder_is_dead_without_lock_lease_or_sign_of_life,
            tokens=True,
            lock=False,
            lease="1 minute",
            gone=AWAY,
            dead="1 minute",
            taken=False,
        ),
    ),
    "forget the lease when a run begins": Mutation(
        "begin_run", KEEPS_LEASE, "", partial(lasts, call=leases.BEGIN)
    ),
    "forget the lease when parts widen": Mutation(
        "widen_run", KEEPS_LEASE, "", partial(lasts, call=leases.WIDEN)
    ),
    "forget the lease at a part": Mutation(
        "finish_part", KEEPS_LEASE, "", leases.test_lease_lasts_when_a_part_is_finished
    ),
    "forget the lease at a message": Mutation(
        "finish_events",
        KEEPS_LEASE,
        "",
        messages.test_ended_lease_goes_on_with_what_is_not_done,
    ),
    "forget the leased ids when a run begins": Mutation(
        "begin_run", KEEPS_IDS, "", partial(keeps, call=leases.BEGIN)
    ),
    "forget the leased ids when parts widen": Mutation(
        "widen_run", KEEPS_IDS, "", partial(keeps, call=leases.WIDEN)
    ),
    "forget the leased ids when a run ends": Mutation(
        "end_run", KEEPS_IDS, "", partial(keeps, call=leases.END)
    ),
    "forget where the part ends when parts widen": Mutation(
        "widen_run",
        ", x_to => p.pos_to",
        "",
        partial(parts.test_part_stays_a_part_whatever_its_run_tells, function="widen_run"),
    ),
    "forget where the part ends when a run ends": Mutation(
        "end_run",
        "p.pos_to, x_died",
        "null, x_died",
        partial(parts.test_part_stays_a_part_whatever_its_run_tells, function="end_run"),
    ),
    "finish a worker's range as a lease": Mutation(
        "finish_events",
        "p.pos_ids is null or",
        "",
        leases.test_event_of_a_worker_is_no_message,
    ),
    "look for no range of the run": Mutation(
        "take_part",
        "s.pos_holder = i_holder and s.pos_batch is not null",
        "false",
        leased.test_range_of_a_run_is_found_by_its_token_and_its_lease_extended,
    ),
    "resume the range of any run": Mutation(
        "take_part",
        "and s.pos_holder = i_holder and",
        "and",
        leased.test_worker_gets_a_subconsumer_that_is_free,
    ),
    "resume a range without its lease": Mutation(
        "take_part",
        "pgq.touch_batch(w.pos_batch, i_lease)",
        "pgq.touch_batch(w.pos_batch)",
        leased.test_range_of_a_run_is_found_by_its_token_and_its_lease_extended,
    ),
    "claim only with a subconsumer": Mutation(
        "take_part",
        "if not found and w.sub_id is not null then",
        "if not found then",
        leased.test_worker_gets_a_subconsumer_that_is_free,
    ),
    "lease without a token": Mutation(
        "take_part",
        "(i_holder is null or i_lease is null)",
        "false",
        partial(
            leased.test_worker_without_subconsumer_and_token_or_lease_is_refused,
            holder=None,
            lease="1 minute",
        ),
    ),
    "lease an event and its copy": Mutation("read_open_events", "distinct on (ev_id)", "", copied),
    "lease the event instead of its copy": Mutation(
        "read_open_events", "order by ev_id, ev_txid desc", "order by ev_id, ev_txid", copied
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
