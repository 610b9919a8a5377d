"""Take one mechanism of the engine out, and see that a check notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest

from tests.guarantees.sessions import RR
from tests.support import gates

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database

SHORT = 2.0  # seconds to wait for a session that, with its lock taken out, will never block
FAILS = (AssertionError, psycopg.Error, pytest.fail.Exception)
DOES_NOT_RUN = "42"  # class of SQLSTATEs: syntax errors and names that do not exist
DEFINITIONS = """
    select pg_get_functiondef(oid) from pg_proc
    where pronamespace = 'pgq'::regnamespace and proname = %s
"""


class Mutation(NamedTuple):
    """One change to one function, and the check that it must break."""

    function: str
    old: str
    new: str
    check: Callable[[Database], None]


def held(check: Callable[[Database], None]) -> Callable[[Database], None]:
    """Let a check run while another transaction holds xmin back."""

    def run(db: Database) -> None:
        db.queue()
        db.main.tick()
        db.open().begin(RR)
        check(db)

    return run


def expect_failure(db: Database, mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the change, and expect that its check fails."""
    monkeypatch.setattr(gates.wait_until_blocked, "__defaults__", (SHORT,))
    _apply(db, mutation)
    with pytest.raises(FAILS) as caught:
        mutation.check(db)
    state = getattr(caught.value, "sqlstate", None) or ""
    if state.startswith(DOES_NOT_RUN):
        pytest.fail(f"the changed function does not run: {caught.value}")


def _apply(db: Database, mutation: Mutation) -> None:
    """Replace the text wherever it stands in the function (which one it is, if overloaded)."""
    found = [source for (source,) in db.main.all(DEFINITIONS, mutation.function)]
    (source,) = [each for each in found if mutation.old in each]
    db.main.run(source.replace(mutation.old, mutation.new))
