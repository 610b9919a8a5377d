"""Take one mechanism of finish_part out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_parts as parts
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

beyond = partial(
    parts.test_part_that_makes_no_sense_is_refused, up_to=99, done=None, message="lies beyond"
)
backwards = partial(
    parts.test_part_that_makes_no_sense_is_refused, up_to=1, done=None, message="finished already"
)
checked = partial(
    parts.test_position_is_checked_until_the_batch_moves_or_ends, isolation="read committed"
)
MUTATIONS = {
    "finish what another session has finished": Mutation(
        "finish_part",
        "elsif x_pos_no <> p.pos_no then",
        "elsif false then",
        parts.test_part_that_another_session_has_finished_meanwhile_is_not_finished_again,
    ),
    "read the whole batch": Mutation(
        "batch_event_sql",
        "if b.pos_from is not null or b.pos_done is not null or b.pos_to is not null then",
        "if false then",
        parts.test_finished_part_is_not_delivered_again,
    ),
    "forget the ids that were done before": Mutation(
        "finish_part",
        "unnest(p.pos_done || x_done)",
        "unnest(x_done)",
        parts.test_done_ids_add_up_and_are_forgotten_once_the_part_has_passed_them,
    ),
    "check no position": Mutation("check_position", "p.pos_no = x_pos_no and", "", checked),
    "check the position of a batch that has ended": Mutation(
        "check_position", "n.pos_no = p.pos_no + 1", "false", checked
    ),
    "let a part shrink": Mutation("finish_part", "x_up_to < p.pos_from", "false", backwards),
    "take any id": Mutation("finish_part", "if v_last > (", "if false and v_last > (", beyond),
    "trust the end tick's number": Mutation(
        "finish_part",
        "if not v_inside then",
        "if true then",
        parts.test_id_that_a_program_wrote_into_the_tables_lies_in_its_batch,
    ),
    "finish without a lock": Mutation(
        "lock_batch", "for no key update", "", parts.test_part_of_a_lost_batch_is_not_finished
    ),
    "take any row of the batch": Mutation(
        "lock_batch",
        "order by pos_no desc limit 1",
        "order by pos_no limit 1",
        parts.test_many_parts_of_a_batch_are_read_newest_first,
    ),
    "find any row of the batch": Mutation(
        "find_batch",
        "order by pos_no desc limit 1",
        "order by pos_no limit 1",
        parts.test_many_parts_of_a_batch_are_read_newest_first,
    ),
    "compact parts away": Mutation(
        "compact_positions",
        "pos_from, pos_done,",
        "null, null,",
        parts.test_parts_outlive_compaction_and_repair,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_is_noticed(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
