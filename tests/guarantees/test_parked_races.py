"""Parked events of a snapshot that is older than what another session did to them."""

from __future__ import annotations

import pytest

from tests.guarantees.parking import PARK, insert_keyed, parked_keys, set_aside, taken
from tests.guarantees.sessions import RR, Database, Session, refused

GO = {
    "deleted": "select count(*) from pgq.delete_parked('q', 'c', '{a}')",
    "cancelled": "select count(*) from pgq.cancel_event('q', '{1}')",
    "skipped": "select count(*) from pgq.skip_event('q', 'c', '{1}')",
}


def follow(session: Session, batch: int | None) -> int:
    """Park the one event of a batch behind its key, without handling it."""
    (event,) = session.events(batch)
    return int(session.one(PARK, batch, [event.id], [event.txid], ["a"], [None], [None]))


@pytest.mark.parametrize("goes", GO.values(), ids=GO)
def test_no_event_is_parked_behind_a_head_that_is_gone(db: Database, goes: str) -> None:
    """Without a head none of its key would ever come."""
    main = set_aside(db, "a1", data=("a1",), after="1 h")
    insert_keyed(main, "a2")
    batch, other = main.next(), db.open()
    other.begin(RR)
    assert parked_keys(other, batch, "a") == {"a"}
    assert main.one(goes) == 1
    with refused("40001"):
        follow(other, batch)
    other.rollback()
    other.begin(RR)
    assert parked_keys(other, batch, "a") == set()
    assert follow(other, batch) == 1
    other.finish(batch)
    other.commit()
    assert taken(main) == ["a2"]
