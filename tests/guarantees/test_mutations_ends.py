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
