"""The retry policy: delays, and when an event is dead. No I/O."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pgqpy.consumers.connections import is_a

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.records import Event

CRASHES = 5  # of a plain consumer's process, after which an event that comes alone is dead
CRASHES_ALONE = 3  # of a shared one's that had nothing else in hand: see sweep_runs
LONGEST = 10 * 365 * 86400.0  # seconds; no delay is longer, so that no interval overflows


class Retry(Exception):
    """Raise it in process_event to retry the event, in process_batch to get the batch again.

    `after` is in seconds, or a timedelta. process_event's event waits in the retry queue. It is no
    failure, so it may be raised at any number of attempts. With `max_attempts`, the event becomes
    dead when that attempt raises it. A plain consumer's process_batch ignores `max_attempts`.

        raise Retry(after=30, reason="the bank is closed", max_attempts=10)
    """

    max_attempts: int | None = None

    def __init__(
        self, after: float | timedelta, reason: str = "", max_attempts: int | None = None
    ) -> None:
        """Raise ValueError if `after` is negative or no number, or `max_attempts` is below 1."""
        self.after = seconds(after)
        self.reason = reason
        if max_attempts is not None and (type(max_attempts) is not int or max_attempts < 1):
            raise ValueError(
                f"max_attempts is a number of attempts from 1 on, not {max_attempts!r}"
            )
        self.max_attempts = max_attempts
        # Another process makes it anew from these.
        super().__init__(self.after, reason, max_attempts)

    def __str__(self) -> str:
        """Say when it comes again, and why."""
        return f"again in {self.after:g} s" + (f": {self.reason}" if self.reason else "")


class RetryPolicy(NamedTuple):
    """How often and how fast a failing event is retried: exponential backoff with jitter."""

    max_retries: int = 20
    base: float = 1.0  # seconds
    maximum: float = 3600.0  # seconds
    give_up: tuple[type[Exception], ...] = ()  # errors that no retry will mend
    dead_events: bool = True  # False: nowhere to keep dead events, so retry for ever

    def delay(
        self, event: Event, error: BaseException, jitter: Callable[[], float] = random.random
    ) -> float | None:
        """Return the seconds until a failed event is delivered again; None if it is dead."""
        wanted, retries = wanted_delay(error), event.retry or 0
        if wanted is not None:
            most = error.max_attempts  # type: ignore[attr-defined]  # of Retry
            return None if most and retries + 1 >= most and self.dead_events else wanted
        hopeless = retries >= self.max_retries or self.gives_up(error)
        if hopeless and self.dead_events:
            return None
        return backoff(retries, base=self.base, maximum=self.maximum, jitter=jitter)

    def gives_up(self, error: BaseException) -> bool:
        """Say whether no retry will mend this error."""
        return is_a(error, self.give_up)


def backoff(
    failures: int, *, base: float, maximum: float, jitter: Callable[[], float] = random.random
) -> float:
    """Return the seconds to wait after one more failure than `failures`.

    They double each time up to `maximum`. Half of them are random, so that events that failed
    together are not delivered again together.
    """
    full = min(maximum, base * 2.0 ** min(failures, 64))
    return full * (0.5 + 0.5 * jitter())


def wanted_delay(error: BaseException) -> float | None:
    """Return the seconds that a handler's Retry asks for; None if it asks for none.

    A subclass of Retry whose `after` or `max_attempts` is missing or wrong is a failure like any
    other exception.
    """
    if not is_a(error, Retry):
        return None
    try:
        found: Any = error
        if type(found.max_attempts) not in (int, type(None)):
            return None
        return seconds(found.after)
    except Exception:  # noqa: BLE001  # whatever a class of the application does there
        return None


def seconds(value: float | timedelta) -> float:
    """Return a delay in seconds; ValueError if it is negative, endless or absurd."""
    number = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not math.isfinite(number) or not 0 <= number <= LONGEST:
        raise ValueError(f"a delay is from 0 to {LONGEST:.0f} seconds, not {number:g}")
    return number
