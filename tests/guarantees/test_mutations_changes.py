"""Take one mechanism of the noted changes out, and the test that is there for it has to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees import test_changes as changes
from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

logins = changes.logins  # a fixture
ended = changes.test_change_is_there_before_it_is_made_and_says_how_it_ended
pages = changes.test_changes_are_listed_from_the_newest_page_by_page
refused = changes.test_wrong_changes_are_refused
deleted = changes.test_changes_are_deleted_after_90_days
OWN = {
    "end the changes of others": ("and change_login = session_user", ""),
    "take the owner for the login": ("change_login = session_user", "change_login = current_user"),
    "end a change twice": ("and change_ended is null", ""),
}
MUTATIONS = {
    "keep endless outcomes": Mutation(
        "end_change", "left(i_outcome, v_length)", "i_outcome", ended
    ),
    "take no outcome": Mutation("end_change", "if i_outcome is null", "if false", refused),
    "list the oldest": Mutation("get_changes", "change_id desc", "change_id", pages),
    "list all": Mutation("get_changes", "limit i_limit", "", pages),
    "list what was listed": Mutation(
        "get_changes", "coalesce(i_before, 9223372036854775807)", "9223372036854775807", pages
    ),
    "note no action": Mutation("begin_change", "i_action is null or", "", refused),
    "note long names": Mutation("begin_change", "length(i_user_name),", "", refused),
    "note payloads": Mutation("begin_change", "> 10000 then", "> 100000 then", refused),
    "delete too early": Mutation("maint_changes", "'90 days'", "'0 days'", deleted),
    "delete all at once": Mutation("maint_changes", "limit v_chunk", "", deleted),
    "never delete": Mutation("maint_operations", "now() - interval '90 days'", "null", deleted),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_engine_without_it_fails_its_test(
    db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_failure(db, mutation, monkeypatch)


@pytest.mark.parametrize("name", OWN)
def test_engine_that_confuses_logins_fails_its_test(
    db: Database, name: str, logins: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(_db: Database) -> None:
        changes.test_change_ends_once_and_by_its_own_login(logins)

    expect_failure(db, Mutation("end_change", *OWN[name], check), monkeypatch)
