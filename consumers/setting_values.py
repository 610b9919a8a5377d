"""Which values the settings of a consumer may have. No I/O."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgqpy.consumers.retry import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_PART_SIZE = 1_000_000  # events
MAX_CONCURRENCY = 1_000  # events
MAX_LANES = 1024
MAX_LEASE = 86_400  # seconds
KEYS = ("type", "extra1", "extra2", "extra3", "extra4")  # of an event


def layers(handler: Any) -> Iterator[Any]:
    """Yield a handler and the functions that decorators, partials and callable objects call.

    Only a function itself knows that it is a generator or `async def`. A decorator may drop the
    coroutine or generator, and then the event would be lost.
    """
    seen: set[int] = set()
    while handler is not None and id(handler) not in seen:
        seen.add(id(handler))
        yield handler
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif inspect.isfunction(handler) or hasattr(handler, "__wrapped__"):
            handler = getattr(handler, "__wrapped__", None)
        else:
            handler = getattr(type(handler), "__call__", None)  # noqa: B004  # to look into it


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_count(value: object, least: int = 1, most: int = 2**31 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _are_errors(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(kind, type) and issubclass(kind, Exception) for kind in value
    )


def _are_texts(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, (str, bytes))
        and len(value) > 0
        and all(isinstance(each, str) and "\0" not in each for each in value)
    )


def _is_filter(value: Any) -> bool:
    return value is None or (
        isinstance(value, Mapping)
        and all(name in KEYS and _are_texts(texts) for name, texts in value.items())
    )


def _is_key(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value is None or value in KEYS
    if not callable(value) or any(map(inspect.iscoroutinefunction, layers(value))):
        return False
    try:
        inspect.signature(value).bind("event")
    except (TypeError, ValueError):
        return False
    return True


def _is_delay(value: Any) -> bool:
    try:
        return not isinstance(value, (bool, str)) and seconds(value) >= 0
    except (TypeError, ValueError):
        return False


def _is_interval(value: Any) -> bool:
    return _is_delay(value) and seconds(value) > 0


def _is_backoff(value: Any) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == len(("first", "longest"))
        and all(map(_is_delay, value))
        and seconds(value[0]) <= seconds(value[1])
    )


CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "queue": (_is_name, 'the name of a queue, such as "orders"'),
    "name": (_is_name, 'the name of the consumer, such as "billing"'),
    "filter": (
        _is_filter,
        f'None or lists such as {{"type": ["order.*"], "extra1": ["eu"]}}, by {", ".join(KEYS)}',
    ),
    "shared": (lambda value: isinstance(value, bool), "True or False"),
    "lanes": (
        lambda n: n is None or _is_count(n, most=MAX_LANES),
        f"None or a number of lanes from 1 to {MAX_LANES:,}",
    ),
    "dead_interval": (
        lambda n: _is_delay(n) and seconds(n) >= 1,
        "a number of seconds, 1 or more, or a timedelta",
    ),
    "lease": (
        lambda n: n is None or (_is_delay(n) and 1 <= seconds(n) <= MAX_LEASE),
        "None, or seconds or a timedelta, from 1 second to a day",
    ),
    "concurrency": (
        lambda n: _is_count(n, most=MAX_CONCURRENCY),
        f"a number of events from 1 to {MAX_CONCURRENCY}",
    ),
    "key": (_is_key, f"None, one of {', '.join(KEYS)}, or a plain def that takes the event"),
    "part_size": (
        lambda n: _is_count(n, most=MAX_PART_SIZE),
        f"a number of events from 1 to {MAX_PART_SIZE:,}",
    ),
    "min_count": (lambda n: n is None or _is_count(n), "None or a number of events"),
    "min_interval": (lambda n: n is None or _is_delay(n), "None, seconds or a timedelta"),
    "on_error": (lambda word: word in ("retry", "stop", "park"), '"retry", "stop" or "park"'),
    "max_retries": (lambda n: _is_count(n, least=0), "a number of retries, 0 or more"),
    "give_up": (_are_errors, "a tuple of exception classes, such as (ValueError,)"),
    "handler_timeout": (
        lambda n: n is None or _is_interval(n),
        "None, or seconds above 0 or a timedelta",
    ),
    "backoff": (
        _is_backoff,
        "the first delay and the longest, such as (1.0, 3600.0): seconds, 0 or more, or timedeltas",
    ),
}
