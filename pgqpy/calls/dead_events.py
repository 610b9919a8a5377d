"""Calls for dead events, and why they are dead. They need pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict, TypeVar

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, batch_call, consumer_call, records
from pgqpy.records import Batch, DeadEvent, DeadEventBounds, DeadEventCount, Event, Failure
from pgqpy.texts import LONGEST, class_name, error_text, traceback_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from typing_extensions import LiteralString, Unpack

LONGEST_TRACEBACK = 20_000  # characters
MOST_TRIES = 2**31 - 1  # an event may come with any number of retries
LEFT_OUT = "\n  …\n"


def failure_of(why: str | BaseException | Failure | None) -> Failure:
    """Return a reason, or an exception, with every text cut and escaped.

    A consumer keeps failures until it writes them, so an exception, which refers to the variables
    of its handler, becomes text at once.
    """
    if isinstance(why, BaseException):  # first: other questions might ask for its __class__
        text = _cut(traceback_text(why), LONGEST_TRACEBACK)
        return Failure(error_text(why), class_name(why), text)
    if isinstance(why, Failure):
        return why if why.tries is None else why._replace(tries=min(why.tries, MOST_TRIES))
    if why is None:
        return Failure()
    if not isinstance(why, str):
        raise TypeError(f"a reason is a str or an exception, not {type(why).__name__}")
    return Failure(_storable(why if len(why) <= LONGEST else f"{why[: LONGEST - 1]}…"))


def _storable(text: str) -> str:
    """Write NUL and lone surrogates as escapes."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _cut(text: str, length: int) -> str:
    """Take lines out of the middle: the end of a traceback says most."""
    if len(text) <= length:
        return text
    half = (length - len(LEFT_OUT)) // 2
    return text[:half].rpartition("\n")[0] + LEFT_OUT + text[-half:].partition("\n")[2]


T = TypeVar("T")


def event_dead(
    batch: Batch | int,
    dead: Iterable[tuple[Event, str | BaseException | Failure | None]],
) -> Call[int]:
    """Give events up, each with its reason; return the number of new dead events."""
    ids, txids, failures = [], [], []
    for event, why in dead:
        check.event(event)
        ids.append(event.id)
        txids.append(event.txid)
        failures.append(failure_of(why))
    texts = ([failure[field] for failure in failures] for field in range(len(Failure._fields)))
    sql = """
        select pgq.event_dead(%s::bigint, %s::bigint[], %s::bigint[], %s::text[], %s::text[],
                              %s::text[], %s::integer[])"""
    return batch_call("event_dead", sql, batch, ids, txids, *texts)


class Wanted(NamedTuple):
    """What chooses dead events, checked: the parameters of the functions, in their order."""

    event_ids: list[int] | None
    type: str | None
    error: str | None
    since: datetime | None
    until: datetime | None
    limit: int | None


class Filters(TypedDict, total=False):
    """What chooses dead events: the client's `get_dead_events` describes it."""

    type: str | None
    error: str | None
    since: datetime | None
    until: datetime | None
    limit: int | None


def matching(
    event_ids: Iterable[int] | None = None,
    *,
    type: str | None = None,
    error: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int | None = None,
) -> Wanted:
    """Check what chooses dead events."""
    return Wanted(
        None if event_ids is None else [check.event_id(event_id) for event_id in event_ids],
        check.maybe_name("type", type),
        check.maybe_name("error", error),
        None if since is None else check.timestamp("since", since),
        None if until is None else check.timestamp("until", until),
        check.count("limit", limit),
    )


def get_dead_event_bounds(
    queue: str, consumer: str, *, before: int | None = None, look: int = 10_000
) -> Call[DeadEventBounds]:
    """Return the ids of the newest dead events of a consumer, at most `look` of them.

    `before` leaves out the events with this id or a higher one. A million dead events take seconds
    to filter or count. Go through them in steps that take milliseconds instead:

        bounds = client.call(get_dead_event_bounds("orders", "billing"))
        if bounds.first_id is not None:
            after = bounds.first_id - 1
            counts = client.call(get_dead_event_counts("orders", "billing", after=after))
        # of the newest 10,000 if bounds.has_more; the next step: before=bounds.first_id

    Raises ConsumerNotFound, InvalidArgument.
    """
    sql = """
        select first_id, last_id, dead_events, has_more
          from pgq.get_dead_event_bounds(%s::text, %s::text, %s::bigint, %s::integer)"""
    params = (check.maybe_bigint("before", before), check.count("look", look))
    return consumer_call("get_dead_event_bounds", sql, queue, consumer, *params, decode=_bounds)


def get_dead_events(
    queue: str, consumer: str, wanted: Wanted, after: int | None, before: int | None
) -> Call[list[DeadEvent]]:
    """List dead events, the newest event first."""
    sql = """
        select dead_time, dead_error, dead_reason, dead_traceback, dead_tries, ev_id, ev_time,
               ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from pgq.get_dead_events(%s::text, %s::text, %s::bigint[], %s::text, %s::text,
                                   %s::timestamptz, %s::timestamptz, %s::integer, %s::bigint,
                                   %s::bigint)"""
    ids, decode = _ids_between(after, before), records(DeadEvent)
    return _call("get_dead_events", sql, queue, consumer, wanted, *ids, decode=decode)


def get_dead_event_counts(
    queue: str,
    consumer: str,
    event_ids: Iterable[int] | None = None,
    *,
    after: int | None = None,
    before: int | None = None,
    **filters: Unpack[Filters],
) -> Call[list[DeadEventCount]]:
    """Count dead events by type and class of exception, the most frequent first.

    The arguments are those of the client's `get_dead_events`; `limit` is for the rows of the
    result. Raises ConsumerNotFound.
    """
    wanted = matching(event_ids, **filters)
    sql = """
        select ev_type, dead_error, dead_events, last_dead_time
          from pgq.get_dead_event_counts(%s::text, %s::text, %s::bigint[], %s::text, %s::text,
                                         %s::timestamptz, %s::timestamptz, %s::integer,
                                         %s::bigint, %s::bigint)"""
    ids, decode = _ids_between(after, before), records(DeadEventCount)
    return _call("get_dead_event_counts", sql, queue, consumer, wanted, *ids, decode=decode)


def revive_dead_events(
    queue: str, consumer: str, wanted: Wanted, after: int | None
) -> Call[list[int]]:
    """Put dead events into the retry queue; return their ids."""
    sql = """
        select pgq.revive_dead_events(%s::text, %s::text, %s::bigint[], %s::text, %s::text,
                                      %s::timestamptz, %s::timestamptz, %s::integer, %s::bigint)"""
    last = check.maybe_bigint("after", after)
    return _call("revive_dead_events", sql, queue, consumer, wanted, last, decode=_ids)


def delete_dead_events(
    queue: str, consumer: str, wanted: Wanted, after: int | None
) -> Call[list[int]]:
    """Delete dead events for good; return their ids."""
    sql = """
        select pgq.delete_dead_events(%s::text, %s::text, %s::bigint[], %s::text, %s::text,
                                      %s::timestamptz, %s::timestamptz, %s::integer, %s::bigint)"""
    last = check.maybe_bigint("after", after)
    return _call("delete_dead_events", sql, queue, consumer, wanted, last, decode=_ids)


def _call(
    function: str,
    sql: LiteralString,
    queue: str,
    consumer: str,
    wanted: Wanted,
    *more: object,
    decode: Callable[[list[Row]], T],
) -> Call[T]:
    texts = {"type": wanted.type, "error": wanted.error}  # an error names the one that is wrong
    params = (*wanted, *more)
    return consumer_call(function, sql, queue, consumer, *params, decode=decode, **texts)


def _ids_between(after: int | None, before: int | None) -> tuple[int | None, int | None]:
    return check.maybe_bigint("after", after), check.maybe_bigint("before", before)


def _bounds(rows: list[Row]) -> DeadEventBounds:
    return DeadEventBounds(*rows[0])


def _ids(rows: list[Row]) -> list[int]:
    return [row[0] for row in rows]
