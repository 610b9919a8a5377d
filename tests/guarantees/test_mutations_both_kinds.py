"""Take one mechanism of the counts of workers and receivers out: the test for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_both_kinds as both
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

goes_on = both.test_each_kind_goes_on_with_the_count_of_the_other
rest = both.test_events_after_the_leased_ones_have_only_the_leases_that_had_them
is_done = both.test_message_that_is_done_takes_along_what_counted_against_it
finished = both.test_event_that_a_worker_finishes_takes_along_what_counted_against_it
keeps = partial(partial, both.test_ended_leases_stay_counted_whatever_is_called)
KEEPS = "x_leases => p.pos_leases"
FIRST = "case when v_open[1] = p.pos_ids[1] then p.pos_{} end"
PROGRESS = "case when v_from is not distinct from p.pos_from then p.pos_leases end"
MUTATIONS = {
    "count no ended lease": Mutation(
        "count_end", "d.pos_leases := pgq.add_tries(d.pos_leases, 1);", "null;", goes_on
    ),
    "count an ended lease as the end of a run": Mutation(
        "count_end", "d.pos_holder = 'receive' then", "d.pos_holder = '' then", goes_on
    ),
    "lease without the end of the holder before": Mutation(
        "receive", "d := pgq.count_end(d);", "", goes_on
    ),
    "take over without the end of the holder before": Mutation(
        "take_range", "d := pgq.count_end(d);", "", goes_on
    ),
    "forget leases when a worker takes them over": Mutation(
        "take_range", "x_leases => d.pos_leases", "x_leases => null", goes_on
    ),
    "do not tell a worker of leases": Mutation(
        "take_part", "s.pos_died, s.pos_leases,", "s.pos_died, null,", goes_on
    ),
    "narrow no lease": Mutation(
        "lease_events", "'receive', x_part => d.pos_part", "'receive', x_part => null", goes_on
    ),
    "forget the tries in a lease": Mutation(
        "lease_events", "x_tries => d.pos_tries", "x_tries => null", goes_on
    ),
    "forget who died in a lease": Mutation(
        "lease_events", "x_died => d.pos_died", "x_died => null", rest
    ),
    "forget leases in a lease": Mutation(
        "lease_events", "x_ids => i_ids, x_leases => d.pos_leases", "x_ids => i_ids", goes_on
    ),
    "forget leases in the rest": Mutation(
        "lease_events",
        "<> all (i_ids)),\n                x_leases => d.pos_leases",
        "<> all (i_ids))",
        rest,
    ),
    "count against the rest": Mutation(
        "lease_events",
        "x_until => '-infinity',",
        "x_until => '-infinity', x_tries => d.pos_tries,",
        rest,
    ),
    "tell a receiver of no tries": Mutation(
        "receive", "then d.pos_tries end", "then 0 end", goes_on
    ),
    "count tries against each message": Mutation(
        "receive", "case when e.ev_id = (v_events[1]).ev_id then", "case when true then", goes_on
    ),
    "keep tries of what is done": Mutation(
        "finish_events", FIRST.format("tries"), "p.pos_tries", is_done
    ),
    "keep who died of what is done": Mutation(
        "finish_events", FIRST.format("died"), "p.pos_died", is_done
    ),
    "forget tries when a later message is done": Mutation(
        "finish_events", FIRST.format("tries"), "null", is_done
    ),
    "forget who died when a later message is done": Mutation(
        "finish_events", FIRST.format("died"), "null", is_done
    ),
    "forget leases at a message": Mutation("finish_events", KEEPS, "x_leases => null", is_done),
    "keep leases though there is progress": Mutation(
        "finish_part", PROGRESS, "p.pos_leases", finished
    ),
    "forget leases without progress": Mutation("finish_part", PROGRESS, "null", finished),
    "count leases for no worker": Mutation(
        "get_worker_info",
        "coalesce(p.pos_leases, 0)",
        "0",
        both.test_attempt_of_a_worker_counts_both_kinds,
    ),
    "count parts for a lease": Mutation(
        "get_worker_info",
        "p.pos_holder is distinct from 'receive'",
        "true",
        both.test_attempt_of_a_worker_counts_both_kinds,
    ),
    "count a released range": Mutation(
        "end_run",
        "p.pos_done, null, p.pos_part",
        "p.pos_done, p.pos_holder, p.pos_part",
        both.test_range_that_a_worker_released_counts_nothing_more,
    ),
    "forget leases when a run begins": Mutation(
        "begin_run",
        KEEPS,
        "x_leases => null",
        keeps(call="select pgq.begin_run('q', 'c.1', 'next')"),
    ),
    "forget leases when parts widen": Mutation(
        "widen_run",
        KEEPS,
        "x_leases => null",
        keeps(call="select pgq.widen_run('q', 'c.1', 'host:1:x')"),
    ),
    "forget leases when a run ends": Mutation(
        "end_run",
        KEEPS,
        "x_leases => null",
        keeps(call="select pgq.end_run('q', 'c.1', 'host:1:x')"),
    ),
    "forget leases when a run is locked": Mutation(
        "lock_subscription",
        "pos_tries, pos_leases",
        "pos_tries, null",
        keeps(call="select pgq.end_run('q', 'c.1', 'host:1:x')"),
    ),
    "forget leases when the filter changes": Mutation(
        "set_consumer_filter",
        "p.pos_leases",
        "null",
        keeps(call="select pgq.set_consumer_filter('q', 'c', '{\"types\": [\"x\"]}')"),
    ),
    "forget leases in a compaction": Mutation(
        "compact_positions",
        "pos_tries, pos_leases",
        "pos_tries, null",
        keeps(call="select pgq.compact_positions()"),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
