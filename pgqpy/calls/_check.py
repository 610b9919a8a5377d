"""Checks of arguments that the server cannot make, or would make too late."""

from __future__ import annotations

import reprlib
from datetime import datetime, timedelta, timezone

from pgqpy.errors import InvalidArgument
from pgqpy.records import Batch, Event

# A century. Anything longer is a mistake, and overflows timestamps.
LONGEST = timedelta(days=36_500)

Interval = timedelta | float
"""A length of time: a timedelta, or seconds."""

After = timedelta | float | datetime
"""When an event is due again: a delay from now, or a time."""


def name(parameter: str, text: str) -> str:
    """Refuse what PostgreSQL's text cannot hold; everything else about a name the server checks."""
    if not isinstance(text, str):
        msg = f"{parameter} must be a str, not {type(text).__name__}"
        raise InvalidArgument(msg, parameter=parameter)
    if "\0" in text:
        msg = f"{parameter} {reprlib.repr(text)} contains a NUL character: take it out"
        raise InvalidArgument(msg, parameter=parameter)
    try:
        text.encode()
    except UnicodeEncodeError:
        msg = f"{parameter} {reprlib.repr(text)} contains a lone surrogate: take it out"
        raise InvalidArgument(msg, parameter=parameter) from None
    return text


def maybe_name(parameter: str, text: str | None) -> str | None:
    """Check a name that may be left out."""
    return None if text is None else name(parameter, text)


def interval(parameter: str, length: Interval | None) -> timedelta | None:
    """Take seconds or a timedelta, from zero up to a century; None stays None."""
    if length is None:
        return None
    if not isinstance(length, timedelta):
        try:
            length = timedelta(seconds=min(max(length, -1.0), LONGEST.total_seconds() + 1))
        except (TypeError, ValueError, ArithmeticError):  # ValueError: a NaN
            msg = f"{parameter} must be seconds or a timedelta, not {reprlib.repr(length)}"
            raise InvalidArgument(msg, parameter=parameter) from None
    if not timedelta(0) <= length <= LONGEST:
        msg = f"{parameter} must lie between 0 seconds and 100 years, not {length}"
        raise InvalidArgument(msg, parameter=parameter)
    return length


def required_interval(parameter: str, length: Interval) -> timedelta:
    """Take what `interval` takes, but for None."""
    found = interval(parameter, length)
    if found is None:
        msg = f"{parameter} must be seconds or a timedelta, not None"
        raise InvalidArgument(msg, parameter=parameter)
    return found


def timestamp(parameter: str, time: datetime) -> datetime:
    """Take a datetime; a naive one has the system's zone, as in Python itself."""
    if not isinstance(time, datetime):
        msg = f"{parameter} must be a datetime, not {type(time).__name__}"
        raise InvalidArgument(msg, parameter=parameter)
    try:
        return time if time.tzinfo else time.astimezone()
    except (ValueError, OverflowError):
        msg = f"{parameter} {time} is out of range as a local time: give an aware datetime"
        raise InvalidArgument(msg, parameter=parameter) from None


def delay(after: After) -> timedelta:
    """Take a delay, or a time: the delay until then, 0 if it has passed."""
    if isinstance(after, datetime):
        after = max(timestamp("after", after) - datetime.now(timezone.utc), timedelta(0))
    return required_interval("after", after)


def count(parameter: str, number: int | None) -> int | None:
    """Take a number from zero up to what an int4 holds; None stays None."""
    if number is not None and not 0 <= number < 2**31:
        msg = f"{parameter} must lie between 0 and {2**31 - 1}, not {number}"
        raise InvalidArgument(msg, parameter=parameter)
    return number


def bigint(parameter: str, number: int) -> int:
    """Take an int that an int8 holds."""
    if isinstance(number, bool) or not isinstance(number, int) or not -(2**63) <= number < 2**63:
        msg = f"{parameter} must be an int of 64 bits, not {number!r}"
        raise InvalidArgument(msg, parameter=parameter)
    return number


def maybe_bigint(parameter: str, number: int | None) -> int | None:
    """Check an int8 that may be left out."""
    return None if number is None else bigint(parameter, number)


def batch_id(batch: Batch | int) -> int:
    """Take a batch or its id."""
    return batch.id if isinstance(batch, Batch) else bigint("batch", batch)


def event_id(event: Event | int) -> int:
    """Take an event or its id."""
    return event.id if isinstance(event, Event) else bigint("event", event)


def event(event: object) -> None:
    """Refuse an id: the server finds an event by its txid too."""
    if not isinstance(event, Event):
        msg = f"an Event is needed, not {type(event).__name__}: its txid finds it in the batch"
        raise TypeError(msg)
