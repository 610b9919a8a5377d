"""A reader of archived events of the queue `q`, and its replay for the consumer `c`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Session

BEGIN = """
    select replay_tick, replay_group, replay_events, replay_done is not null, replay_asked,
           replay_since::text, replay_until::text
      from pgq.begin_replay('q', %s, %s, %s, %s, %s)"""
EVENTS = """
    select array_agg(ev_id), array_agg(ev_time), array_agg(%s), array_agg(ev_type),
           array_agg(ev_data), array_agg(ev_extra1), array_agg(ev_extra2), array_agg(ev_extra3),
           array_agg(ev_extra4)
      from pgq.get_tick_events('q', %s, %s)"""
INSERT = """
    select pgq.replay_events('q', 'c', %s, %s, %s, %s, %s, %s::bigint[], %s::timestamptz[],
           %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])"""


class Place(NamedTuple):
    """Where a replay stands."""

    tick: int
    group: int
    events: int
    done: bool
    asked: str
    since: str
    until: str


def begin(session: Session, asked: str = "all", *, again: bool = False, **other: Any) -> Place:
    """Begin a replay, or find the one that was begun."""
    since, until = other.get("since", "-infinity"), other.get("until", "infinity")
    call = (other.get("consumer", "c"), asked, since, until, again)
    return Place(*session.all(BEGIN, *call)[0])


def call_of(session: Session, ticks: list[int], place: tuple[int, int] = (0, 0)) -> list[Any]:
    """Read the events after one tick, up to another, as a file has them: the call for them."""
    first, last = ticks
    columns = session.all(EVENTS, last, first, last)[0]
    rows = len(columns[0] or ())
    return [*place, last, rows, False, *(column or [] for column in columns)]


def replay(session: Session, ticks: list[int], place: tuple[int, int] = (0, 0)) -> int | None:
    """Insert the events after one tick, up to another: how many were inserted."""
    inserted: int | None = session.one(INSERT, *call_of(session, ticks, place))
    return inserted


def replay_later(session: Session, ticks: list[int]) -> Future[Any]:
    """Insert events, which will have to wait."""
    return session.later(INSERT, *call_of(session, ticks))
