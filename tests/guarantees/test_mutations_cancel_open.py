"""Take one mechanism of cancellations beside an open batch out; its test has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_cancel_open as opened
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

KEEPS_RETRY = (
    opened.test_retried_event_of_an_open_batch_is_delivered_and_keeps_its_retry_and_its_key
)
REMOVES_RETRY = opened.test_retry_of_an_event_that_is_finished_in_an_open_batch_is_removed
MUTATIONS = {
    "remove the retry of what an open batch has": Mutation(
        "remove_waiting",
        "and ev_id <> all (i_open)",
        "",
        partial(KEEPS_RETRY, way="plain"),
    ),
    "remove what is parked of what an open batch has": Mutation(
        "remove_waiting",
        "held := i_open || array(",
        "held := array(",
        opened.test_event_that_is_parked_from_an_open_batch_is_delivered_and_stays_parked,
    ),
    "hide the retry of what an open batch has": Mutation(
        "hide_from_consumer",
        "where ev_id <> all (v_open)",
        "",
        partial(
            opened.test_retry_that_is_in_the_queue_is_not_hidden_while_the_batch_is_open,
            way="plain",
        ),
    ),
    "take a removed copy for the event": Mutation(
        "hide_from_consumer",
        "when i.id = any (v_open) then 'delivered'",
        "",
        opened.test_event_whose_retry_was_cancelled_is_delivered_by_a_batch_that_has_it_again,
    ),
    "ask no worker and no lane what is open": Mutation(
        "hide_from_consumer",
        "or c.sub_parent = r.sub_id",
        "",
        partial(KEEPS_RETRY, way="receiver"),
    ),
    "forget parts that no worker has": Mutation(
        "find_open_ids",
        "if p.pos_next_tick is null then",
        "if p.pos_batch is null then",
        opened.test_part_that_no_worker_has_yet_counts_as_open,
    ),
    "take what a lease finished for open": Mutation(
        "find_open_ids",
        "(id = any (p.pos_ids)) is not false",
        "true",
        partial(REMOVES_RETRY, way="receiver"),
    ),
    "take what a part finished for open": Mutation(
        "find_open_ids",
        "id <> all (coalesce(p.pos_done, '{}'))",
        "true",
        partial(REMOVES_RETRY, way="plain"),
    ),
    "take what was cancelled for open": Mutation(
        "find_open_ids",
        "skip_sub = $3 and",
        "false and",
        opened.test_event_that_was_cancelled_before_its_batch_was_opened_stays_cancelled,
    ),
    "take a dropped copy for open": Mutation(
        "find_open_ids",
        "where ev_id > above and",
        "where false and",
        opened.test_copy_that_a_seek_has_dropped_is_in_no_open_batch,
    ),
    "take for open what the filter does not take": Mutation(
        "find_open_ids",
        "pgq.filter_sql(v_filter - 'lane')",
        "null",
        opened.test_event_that_the_filter_does_not_take_any_more_is_in_no_open_batch,
    ),
    "take a stage that waits for open": Mutation(
        "find_open_ids",
        "else stage_released_by end",
        "else ev_txid end",
        partial(opened.test_event_of_a_stage_counts_from_its_release, released=False),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_is_noticed(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
