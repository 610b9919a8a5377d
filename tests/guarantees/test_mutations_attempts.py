"""Take one mechanism of attempts out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_attempts as attempts
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

FINISH = "select pgq.finish_batch({batch})"
kept = partial(
    partial, attempts.test_moves_keep_the_holder_and_progress_clears_the_tries, left=attempts.HELD
)
progressed = partial(kept, left=attempts.PROGRESSED)
HOLDER = "x_holder => p.pos_holder"
MUTATIONS = {
    "drop the holder in finish_batch": Mutation(
        "finish_batch", HOLDER, "x_holder => null", progressed(call=FINISH)
    ),
    "drop the holder in finish_part": Mutation(
        "finish_part",
        HOLDER,
        "x_holder => null",
        attempts.test_finish_part_without_progress_keeps_the_tries,
    ),
    "drop the holder in next_batch": Mutation(
        "next_batch_custom",
        "x_holder => r.pos_holder",
        "x_holder => null",
        progressed(call=f"{FINISH}, pgq.next_batch('q', 'c')"),
    ),
    "count tries though there is progress": Mutation(
        "finish_part",
        "case when v_from is not distinct from p.pos_from then p.pos_tries end",
        "p.pos_tries",
        attempts.test_finish_part_without_progress_keeps_the_tries,
    ),
    "compact attempts away": Mutation(
        "compact_positions",
        "pos_holder, pos_part, pos_tries,",
        "null, null, null,",
        kept(call="select pgq.compact_positions()"),
    ),
    "count a run that came back": Mutation(
        "begin_run",
        "if p.pos_holder = i_holder then",
        "if false then",
        attempts.test_run_that_comes_back_has_not_died,
    ),
    "count a run that ended in order": Mutation(
        "end_run",
        "p.pos_done, null, p.pos_part",
        "p.pos_done, p.pos_holder, p.pos_part",
        attempts.test_run_that_ended_in_order_has_not_died,
    ),
    "end the run of another process": Mutation(
        "end_run",
        "if p.pos_holder is distinct from i_holder then",
        "if false then",
        attempts.test_run_that_ended_in_order_has_not_died,
    ),
    "count an unclean end without an open batch": Mutation(
        "begin_run",
        "elsif p.pos_holder is not null and p.pos_batch is not null then",
        "elsif p.pos_holder is not null then",
        attempts.test_unclean_end_without_an_open_batch_never_counts,
    ),
    "ignore the unclean end of a run that opens late": Mutation(
        "begin_run",
        "elsif p.pos_holder is not null and i_opens_late then",
        "elsif false then",
        attempts.test_consumer_that_opens_late_is_careful_after_an_unclean_end_without_an_open_batch,
    ),
    "narrow further without an open batch": Mutation(
        "begin_run",
        "coalesce(p.pos_part, 1000)",
        "coalesce(30, p.pos_part)",
        attempts.test_consumer_that_opens_late_is_careful_after_an_unclean_end_without_an_open_batch,
    ),
    "count before the event is known": Mutation(
        "narrow_part",
        "case when x_part = 1 then",
        "case when x_part <= 30 then",
        attempts.test_unclean_ends_narrow_the_parts_and_then_count_against_the_first_event,
    ),
    "never narrow to one event": Mutation(
        "narrow_part",
        "when x_part > 30 then 30 else 1 end",
        "else 30 end",
        attempts.test_unclean_ends_narrow_the_parts_and_then_count_against_the_first_event,
    ),
    "widen for another run": Mutation(
        "widen_run",
        "or p.pos_holder is distinct from i_holder",
        "",
        attempts.test_parts_widen_step_by_step_for_the_run_itself,
    ),
    "widen all at once": Mutation(
        "widen_run",
        "case when p.pos_part < 30 then 30 when p.pos_part < 1000 then 1000 end",
        "null",
        attempts.test_parts_widen_step_by_step_for_the_run_itself,
    ),
    "forget finished parts when a run begins": Mutation(
        "begin_run",
        "p.pos_from, p.pos_done, i_holder",
        "null, null, i_holder",
        attempts.test_begin_of_a_run_keeps_the_parts_that_are_finished,
    ),
    "forget finished parts when parts widen": Mutation(
        "widen_run",
        "p.pos_pins, p.pos_from, p.pos_done",
        "p.pos_pins, null, null",
        attempts.test_begin_of_a_run_keeps_the_parts_that_are_finished,
    ),
    "forget finished parts when a run ends": Mutation(
        "end_run",
        "p.pos_pins, p.pos_from, p.pos_done",
        "p.pos_pins, null, null",
        attempts.test_begin_of_a_run_keeps_the_parts_that_are_finished,
    ),
    "begin a run beside another session": Mutation(
        "lock_subscription",
        "for no key update",
        "",
        attempts.test_run_that_begins_while_the_batch_is_finished_waits_for_that,
    ),
    "begin a run beside an old snapshot": Mutation(
        "lock_subscription",
        "perform pgq.check_newest_position(p);",
        "",
        partial(attempts.test_run_with_an_old_snapshot_changes_nothing, function="begin_run"),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_is_noticed(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
