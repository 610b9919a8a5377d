"""Mutations of replay: without a mechanism, its test fails."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_replay as replay
from tests.guarantees import test_replay_moves as moves
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MOVED_FIRST = moves.test_replay_waits_for_a_move_back_and_leaves_out_what_comes_again
EVENTS, BEGIN = "replay_events", "begin_replay"
MUTATIONS = {
    "insert for every consumer": Mutation(
        EVENTS,
        "ev_time, $11,\n",
        "ev_time, 0,\n",
        replay.test_events_come_again_to_one_consumer_behind_its_backlog,
    ),
    "insert wherever the replay stands": Mutation(
        EVENTS,
        "and replay_tick = i_tick and replay_group = i_group",
        "",
        replay.test_place_moves_with_the_events,
    ),
    "insert beside another session": Mutation(
        EVENTS,
        "and replay_tick = i_tick and replay_group = i_group",
        "and exists (select from pgq.replay where replay_tick = i_tick)",
        replay.test_second_of_two_sessions_inserts_nothing,
    ),
    "go on behind the end": Mutation(
        EVENTS,
        "and replay_done is null",
        "",
        replay.test_replay_with_the_same_words_goes_on_and_is_done_once,
    ),
    "insert what is yet to come": Mutation(
        EVENTS,
        "select min(pos_last_tick)",
        "select 9223372036854775807 + 0 * min(pos_last_tick)",
        replay.test_event_that_the_consumer_has_yet_to_get_comes_once,
    ),
    "let the fastest lane count": Mutation(
        EVENTS, "min(pos_last_tick)", "max(pos_last_tick)", replay.test_slowest_lane_counts
    ),
    "let the fastest worker count": Mutation(
        EVENTS, "min(pos_last_tick)", "max(pos_last_tick)", replay.test_slowest_worker_counts
    ),
    "let all types pass": Mutation(
        EVENTS,
        "coalesce(pgq.filter_sql(r.sub_filter - 'lane'), 'true')",
        "'true'",
        replay.test_filter_of_the_consumer_decides,
    ),
    "insert parked events": Mutation(
        EVENTS,
        "and parked.ev_id = given.ev_id",
        "and false",
        replay.test_parked_event_is_not_inserted,
    ),
    "insert waiting events": Mutation(
        EVENTS,
        "on conflict (ev_owner, ev_id) do nothing",
        "",
        replay.test_event_that_waits_already_is_not_inserted,
    ),
    "insert cancelled events": Mutation(
        EVENTS,
        "skip_sub in ($11, -$10)",
        "skip_sub = 0",
        replay.test_cancelled_and_skipped_events_stay_hidden,
    ),
    "insert for a detached consumer": Mutation(
        EVENTS,
        "if r.sub_detached is not null then",
        "if false then",
        replay.test_detached_consumer_gets_what_it_lost_when_it_is_attached_again,
    ),
    "let a seek go on": Mutation(
        EVENTS,
        "where sub_id = v_sub for key share;",
        "where sub_id = v_sub;",
        moves.test_seek_back_waits_for_a_replay_and_takes_its_events_once,
    ),
    "let a move go on": Mutation(
        EVENTS,
        "where sub_id = v_sub for key share;",
        "where sub_id = v_sub;",
        partial(MOVED_FIRST, end="commit"),
    ),
    "move beside a replay": Mutation(
        "add_registration",
        "for update of s;",
        "for no key update of s;",
        moves.test_move_back_waits_for_a_replay_whose_events_stay_as_retried_ones,
    ),
    "move beside a replay that waits": Mutation(
        "register_consumer_at",
        "null, x_tick_pos is not null)",
        "null)",
        partial(MOVED_FIRST, end="commit"),
    ),
    "move without a trace for an older snapshot": Mutation(
        "register_consumer_at",
        "update pgq.registration set sub_queue = sub_queue where sub_id = r.sub_id;",
        "null;",
        partial(
            moves.test_replay_whose_snapshot_is_older_than_a_move_back_is_refused, how=moves.MOVE
        ),
    ),
    "serve a reader by ticks": Mutation(
        BEGIN,
        "elsif pgq.reads_by_ticks(p) then",
        "elsif false then",
        replay.test_reader_by_ticks_and_worker_are_refused,
    ),
    "take the times of the second call": Mutation(
        BEGIN,
        "where i_again or old.replay_done is not null and old.replay_asked <> i_asked;",
        "where true;",
        replay.test_replay_with_the_same_words_goes_on_and_is_done_once,
    ),
    "forget no replay": Mutation(
        "remove_registration",
        "delete from pgq.replay where replay_sub = r.sub_id;",
        "",
        replay.test_replay_with_the_same_words_goes_on_and_is_done_once,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
