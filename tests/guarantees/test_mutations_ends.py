"""Take one mechanism of workers' unclean ends out: the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_shared_ends as ends
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

comes_back = partial(ends.test_process_that_comes_back_after_a_lost_session_did_not_die, died=False)
lives = ends.test_run_whose_session_is_there_has_not_died
begins_again = ends.test_run_that_begins_again_is_no_progress_unless_nobody_was_at_work
is_no_progress = partial(ends.test_takeover_is_no_progress, released=False)
MUTATIONS = {
    "count lost sessions as unclean ends": Mutation(
        "uncount_end", "pos_tries = nullif(pos_tries - 1, 0)", "pos_tries = pos_tries", comes_back
    ),
    "keep the token of a run that lives": Mutation(
        "uncount_end", "array_remove(pos_died, i_holder)", "pos_died", comes_back
    ),
    "wait for a stopped process that has the range": Mutation(
        "uncount_end",
        "for no key update skip locked",
        "for no key update",
        ends.test_range_that_is_locked_is_uncounted_later,
    ),
    "uncount once, whatever came of it": Mutation(
        "uncount_end",
        "v_all := false;",
        "null;",
        ends.test_range_that_is_locked_is_uncounted_later,
    ),
    "do not see who has no subconsumer": Mutation(
        "take_part",
        "and pgq.uncount_end(p.sub_id, i_holder) then",
        "and w.sub_id is not null and pgq.uncount_end(p.sub_id, i_holder) then",
        ends.test_worker_without_a_subconsumer_that_comes_back_did_not_die,
    ),
    "do not see who takes a range again": Mutation(
        "take_part",
        "perform pgq.uncount_end(p.sub_id, i_holder);",
        "null;",
        ends.test_process_that_takes_its_lost_range_again_did_not_die,
    ),
    "forget who died": Mutation(
        "count_end",
        "case when d.pos_part = 1 then array[d.pos_holder] end",
        "'{}'::text[]",
        comes_back,
    ),
    "count a token twice": Mutation(
        "count_end",
        "if d.pos_part is distinct from 1 or d.pos_holder <> all (coalesce(d.pos_died, '{}')) then",
        "if true then",
        ends.test_token_counts_once,
    ),
    "forget who died at a part without progress": Mutation(
        "finish_part",
        "then p.pos_died end",
        "then null::text[] end",
        ends.test_progress_clears_the_tokens_with_the_tries,
    ),
    "keep who died though there is progress": Mutation(
        "finish_part",
        "case when v_from is not distinct from p.pos_from then p.pos_died end",
        "p.pos_died",
        ends.test_progress_clears_the_tokens_with_the_tries,
    ),
    "forget who died when a run ends in order": Mutation(
        "end_run",
        "x_died => p.pos_died,",
        "",
        ends.test_progress_clears_the_tokens_with_the_tries,
    ),
    "count a run whose session is there": Mutation(
        "count_ended", "else false end", "else true end", lives
    ),
    "let a run count that has not ended, without its token": Mutation(
        "count_ended", "- cardinality(i_died) + cardinality(died)", "", lives
    ),
    "count a worker whose session is there": Mutation(
        "take_part",
        "from pgq.count_ended(tries, died) e",
        "from (select tries, died) e (tries, died)",
        lives,
    ),
    "count a run with lanes whose session is there": Mutation(
        "take_lane",
        "from pgq.count_ended(s.pos_tries, s.pos_died) e",
        "from (select s.pos_tries, s.pos_died) e (tries, died)",
        ends.test_run_with_lanes_whose_session_is_there_has_not_died,
    ),
    "take a takeover for progress": Mutation(
        "take_range",
        "x_moved => pgq.last_progress(d.pos_moved, d.pos_active)",
        "x_moved => null",
        is_no_progress,
    ),
    "take the careful mode's end for progress": Mutation(
        "widen_run", ", x_moved => p.pos_moved", "", is_no_progress
    ),
    "forget that a batch was taken over": Mutation(
        "widen_run", "'{}'::text[]", "null::text[]", is_no_progress
    ),
    "take a run that begins for progress": Mutation(
        "begin_run",
        ", x_moved => pgq.last_progress(p.pos_moved, p.pos_active)",
        "",
        partial(begins_again, again="plain consumer", away=False),
    ),
    "take failures that were written for progress": Mutation(
        "finish_part",
        "x_up_to is null and x_done = '{}'",
        "false",
        ends.test_position_that_moves_without_a_finished_event_is_no_progress,
    ),
    "take a run that ends for progress": Mutation(
        "end_run",
        "        x_moved => p.pos_moved);",
        "        x_moved => null);",
        partial(begins_again, again="plain consumer", away=False),
    ),
    "count the time away of a worker that comes back": Mutation(
        "resume_part",
        "pgq.last_progress(pos_moved, pos_active)",
        "pos_moved",
        partial(begins_again, again="same worker", away=True),
    ),
    "count the time in which nobody was at work": Mutation(
        "last_progress",
        "< interval '10 minutes'",
        "< interval '10 days'",
        ends.test_range_that_nobody_worked_on_begins_anew,
    ),
    "do not see who came back": Mutation(
        "take_part",
        "and pgq.uncount_end(p.sub_id, i_holder) then",
        "then",
        comes_back,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
