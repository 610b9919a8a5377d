"""Take one lock of those that drop a queue out, and the test that is there for it has to fail."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_faults_locks as locks
from tests.guarantees import test_faults_spans as spans
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database


def impatient(check: Callable[[Database], None]) -> Callable[[Database], None]:
    """Let a check fail soon that, without a lock, would wait for ever."""

    def run(db: Database) -> None:
        db.main.run("set statement_timeout = '2s'")
        check(db)

    return run


def spanning(first: str, then: str) -> partial[None]:
    """Let a queue be dropped between two calls of one transaction."""
    check = spans.test_transaction_that_holds_a_part_gets_the_rest
    return partial(check, first=first, then=then, whole=spans.WHOLE["drop"])


MUTATIONS = {
    "look at a queue that is being dropped": Mutation(
        "try_lock_against_drop",
        "pg_try_advisory_xact_lock_shared(7366515, i_queue_id)",
        "true",
        impatient(
            partial(
                locks.test_drop_that_is_left_open_holds_up_no_other_queue,
                look=locks.LOOKS["ticker_activity"],
            )
        ),
    ),
    "let tickers look while a sequence is waited for": Mutation(
        "lock_queue",
        "select pg_advisory_xact_lock(7366515, %2$L); alter",
        "alter",
        partial(
            locks.test_drop_that_waits_for_a_sequence_holds_up_no_other_queue,
            read="select pgq.force_tick('q')",
            whole="select pgq.drop_queue('q')",
            look=locks.LOOKS["ticker_activity"],
        ),
    ),
    "wait for one lock with the others in hand": Mutation(
        "lock_queue",
        "c_soon constant text := '10ms'",
        "c_soon constant text := '0'",
        spanning("an event", "a batch"),
    ),
    "leave the sequences for later": Mutation(
        "lock_queue", "relkind in ('r', 'S')", "relkind = 'r'", spanning("the sequence", "an event")
    ),
    "leave the subscriptions for later": Mutation(
        "lock_queue",
        "format('select from pgq.registration where sub_queue = %L for update',"
        "\n                        queue_id)",
        "'select 1'",
        spanning("a subscription", "an event"),
    ),
    "leave the consumers' names for later": Mutation(
        "lock_queue",
        "for update', queue_id)]",
        "', queue_id)]",
        spanning("a consumer's name", "an event"),
    ),
    "forget that the caller waits no longer": Mutation(
        "lock_queue",
        "if v_waits then",
        "if false then",
        impatient(spans.test_drop_gives_up_when_the_caller_will_wait_no_longer),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
