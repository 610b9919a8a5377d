"""Calls of a replay: archived events inserted again for one consumer. They need pgq_admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, consumer_call

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pgqpy.calls._call import Row


class ReplayPosition(NamedTuple):
    """The position of a replay: after so many row groups of the file that ends at this tick."""

    tick: int = 0
    group: int = 0


class Replay(NamedTuple):
    """A replay that was begun.

    Attributes:
        asked: the description of the caller who began it; it identifies the replay.
        since: its events have this time or a later one; None: all.
        until: and an earlier one; None: all.
        position: its position in the archive.
        events: inserted until now.
        begun: when it was begun.
        done: when it was done, or None.
    """

    asked: str
    since: datetime | None
    until: datetime | None
    position: ReplayPosition
    events: int
    begun: datetime
    done: datetime | None


class ArchivedEvents(NamedTuple):
    """Events, a list for each column. Times are microseconds since 1970."""

    ids: Sequence[int] = ()
    times: Sequence[int] = ()
    ticks: Sequence[int] = ()
    types: Sequence[str | None] = ()
    datas: Sequence[str | None] = ()
    extra1s: Sequence[str | None] = ()
    extra2s: Sequence[str | None] = ()
    extra3s: Sequence[str | None] = ()
    extra4s: Sequence[str | None] = ()


def begin_replay(
    queue: str,
    consumer: str,
    asked: str,
    since: datetime | None,
    until: datetime | None,
    *,
    again: bool,
) -> Call[Replay]:
    """Begin a replay, or find the one that was begun."""
    sql = """
        select replay_asked, nullif(replay_since, '-infinity'), nullif(replay_until, 'infinity'),
               replay_tick, replay_group, replay_events, replay_begun, replay_done
          from pgq.begin_replay(%s::text, %s::text, %s::text,
               coalesce(%s::timestamptz, '-infinity'), coalesce(%s::timestamptz, 'infinity'),
               %s::boolean)"""
    times = (
        None if time is None else check.timestamp(name, time)
        for name, time in (("since", since), ("until", until))
    )
    return consumer_call(
        "begin_replay", sql, queue, consumer, asked, *times, again, decode=_to_replay
    )


def _to_replay(rows: list[Row]) -> Replay:
    asked, since, until, tick, group, *others = rows[0]
    return Replay(asked, since, until, ReplayPosition(tick, group), *others)


# Whole days are added separately: an interval times a large number is not exact.
_TIMES = """
    array(select case t when 9223372036854775807 then 'infinity'
                        when -9223372036854775808 then '-infinity'
                        else (timestamp '1970-01-01' + make_interval(
                              days => (t / 86400000000)::int)
                              + t %% 86400000000 * interval '1 microsecond') at time zone 'UTC' end
            from unnest(%s::bigint[]) with ordinality times (t, number) order by number)"""


def replay_events(
    queue: str,
    consumer: str,
    position: ReplayPosition,
    to_position: ReplayPosition,
    events: ArchivedEvents,
    *,
    done: bool = False,
) -> Call[int | None]:
    """Insert events, and move the replay; None if it is not at `position`."""
    sql = (
        """
        select pgq.replay_events(%s::text, %s::text, %s::bigint, %s::bigint, %s::bigint,
               %s::bigint, %s::boolean, %s::bigint[], """
        + _TIMES
        + """, %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
               %s::text[])"""
    )
    more = (*position, *to_position, done, *map(list, events))
    return consumer_call("replay_events", sql, queue, consumer, *more)
