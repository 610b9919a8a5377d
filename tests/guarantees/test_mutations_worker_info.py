"""Take one mechanism of get_worker_info out, and the test that is there for it has to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_worker_info as info
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MUTATIONS = {
    "call every worker alive": Mutation(
        "get_worker_info",
        "when l.objid is not null then true",
        "when true then true",
        info.test_worker_lives_as_long_as_its_session_has_the_lock,
    ),
    "believe locks of other databases": Mutation(
        "get_worker_info",
        "and database = (select oid from pg_database where datname = current_database())",
        "",
        info.test_lock_in_another_database_says_nothing,
    ),
    "call leases endless": Mutation(
        "get_worker_info",
        "then not pgq.lease_is_over(p.pos_until, p.pos_active)",
        "then true",
        info.test_end_of_a_lease_decides_whatever_session_there_is,
    ),
    "call clients of PGQ dead": Mutation(
        "get_worker_info",
        "and p.pos_holder is not null then false",
        "then false",
        info.test_nobody_knows_of_a_client_of_pgq_whether_it_lives,
    ),
    "call a sign of life progress": Mutation(
        "get_worker_info",
        "clock_timestamp() - p.pos_moved",
        "clock_timestamp() - p.pos_active",
        info.test_sign_of_life_is_no_progress,
    ),
    "count the unclean ends of another batch": Mutation(
        "get_worker_info",
        "(p.pos_died is not null or p.pos_tries > 0)",
        "true",
        info.test_attempt_counts_the_unclean_ends_that_are_known_of_a_batch,
    ),
    "forget which consumer was asked for": Mutation(
        "get_worker_info",
        "and (i_consumer_name is null or parent.co_name = i_consumer_name)",
        "",
        info.test_rows_are_those_of_the_queue_and_consumer_that_are_named,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)
