"""Take one mechanism of the dead events out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_dead_events as dead
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


def divided(change: str) -> partial[None]:
    return partial(dead.test_two_sessions_divide_the_dead_events_and_neither_waits, change=change)


chosen = dead.test_filters_choose_what_is_changed_and_nothing_else
deleted = partial(chosen, change="delete_dead_events")
revived = partial(chosen, change="revive_dead_events")
listed = dead.test_the_newest_dead_events_are_listed_and_counted_by_type_and_error
kept = dead.test_dead_event_keeps_what_was_said_of_it_and_how_often_it_was_tried
MUTATIONS = {
    "forget the retries": Mutation("event_dead", "pgq.add_tries(e.ev_retry, 1)", "1", kept),
    "forget the caller's tries": Mutation(
        "event_dead", "coalesce(u.tries,", "coalesce(null,", kept
    ),
    "take fewer errors than events": Mutation(
        "event_dead", "or cardinality(x_errors) <> cardinality(x_event_ids)", "", kept
    ),
    "take fewer tracebacks than events": Mutation(
        "event_dead", "or cardinality(x_tracebacks) <> cardinality(x_event_ids)", "", kept
    ),
    "take fewer tries than events": Mutation(
        "event_dead", "or cardinality(x_tries) <> cardinality(x_event_ids)", "", kept
    ),
    "confuse errors and tracebacks": Mutation(
        "event_dead",
        "u.error, coalesce(u.reason, ''), u.traceback",
        "u.traceback, coalesce(u.reason, ''), u.error",
        kept,
    ),
    "fail on what is dead already": Mutation(
        "event_dead", "on conflict (ev_owner, ev_id) do nothing", "", kept
    ),
    "take events of other ids": Mutation(
        "dead_event_matches", "i_event_ids is null", "true", deleted
    ),
    "take events of other types": Mutation("dead_event_matches", "i_type is null", "true", deleted),
    "find no events without a type": Mutation(
        "dead_event_matches", "coalesce(d.ev_type, '')", "d.ev_type", deleted
    ),
    "take events of other errors": Mutation(
        "dead_event_matches", "i_error is null", "true", deleted
    ),
    "find no events without an error": Mutation(
        "dead_event_matches", "coalesce(d.dead_error, '')", "d.dead_error", deleted
    ),
    "take events that died before": Mutation(
        "dead_event_matches", "i_since is null", "true", deleted
    ),
    "take events that died later": Mutation(
        "dead_event_matches", "i_until is null", "true", deleted
    ),
    "take events of other consumers": Mutation(
        "take_dead_events", "d.ev_owner = v_sub", "true", deleted
    ),
    "take what was taken before": Mutation("take_dead_events", "i_after is null", "true", deleted),
    "take all at once": Mutation("take_dead_events", "limit i_limit", "", deleted),
    "take the newest": Mutation(
        "take_dead_events", "order by d.ev_id", "order by d.ev_id desc", deleted
    ),
    "wait for another session": Mutation(
        "take_dead_events", "skip locked", "", divided("delete_dead_events")
    ),
    "revive without a lock": Mutation(
        "take_dead_events", "for update skip locked", "", divided("revive_dead_events")
    ),
    "revive and keep": Mutation(
        "take_dead_events",
        "delete from pgq.dead_event where ctid = any (v_rows) returning *",
        "select * from pgq.dead_event where ctid = any (v_rows)",
        revived,
    ),
    "list dead events of everybody": Mutation(
        "get_dead_events", "d.ev_owner = v_sub", "true", listed
    ),
    "list the oldest": Mutation("get_dead_events", "d.ev_id desc", "d.ev_id", listed),
    "list all": Mutation("get_dead_events", "limit i_limit", "", listed),
    "count dead events of everybody": Mutation(
        "get_dead_event_counts", "d.ev_owner = v_sub", "true", listed
    ),
    "count the rarest": Mutation("get_dead_event_counts", "order by 3 desc", "order by 3", listed),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_mutation_is_noticed(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
