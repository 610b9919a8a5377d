"""What tests of insert_event_once share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.guarantees.sessions import Session

ONCE = "select pgq.insert_event_once('q', %s, '1 hour', 't', %s)::text"
KEYS = "select dedup_key from pgq.dedup_key order by 1"
EXPIRE = "update pgq.dedup_key set dedup_until = clock_timestamp() - interval '1 s'"
CLEAN = "select pgq.maint_dedup_keys()"


def once(session: Session, data: str, key: str = "k") -> tuple[int, bool]:
    """Insert an event once; return its id and whether it is new."""
    return read(session.one(ONCE, key, data))


def read(answer: str) -> tuple[int, bool]:
    """Read what ONCE returned."""
    ev_id, is_new = answer.strip("()").split(",")
    return int(ev_id), is_new == "t"


def keys(session: Session) -> list[str]:
    """Return the keys in the table."""
    return [key for (key,) in session.all(KEYS)]
