"""Retry policy: pure decisions."""

from __future__ import annotations

import math
import pickle
from datetime import datetime, timedelta, timezone

import pytest

from pgqpy.consumers import Retry
from pgqpy.consumers.retry import LONGEST, RetryPolicy, backoff
from pgqpy.records import Event


def event(retry):
    return Event(1, datetime.now(timezone.utc), 1, retry, "test", "data")


def most():
    return 1.0


def least():
    return 0.0


def test_backoff_doubles_up_to_its_maximum_and_half_of_it_is_jitter():
    delays = [backoff(n, base=1, maximum=10, jitter=most) for n in range(6)]
    assert delays == [1, 2, 4, 8, 10, 10]
    assert backoff(3, base=1, maximum=100, jitter=least) == 4
    assert backoff(10**9, base=1, maximum=3600, jitter=most) == 3600


def test_an_error_is_retried_until_max_retries_and_then_dead():
    policy = RetryPolicy(max_retries=2, base=1, maximum=3600)
    error = ValueError("bad")
    assert policy.delay(event(None), error, most) == 1
    assert policy.delay(event(1), error, most) == 2
    assert policy.delay(event(2), error, most) is None
    assert policy.delay(event(7), error, most) is None


def test_without_dead_events_it_is_retried_for_ever():
    policy = RetryPolicy(max_retries=0, base=1, maximum=8, dead_events=False)
    assert policy.delay(event(1000), ValueError(), most) == 8


def test_retry_has_its_own_delay_and_never_dies():
    policy = RetryPolicy(max_retries=0)
    assert policy.delay(event(1000), Retry(after=5)) == 5
    assert policy.delay(event(None), Retry(after=timedelta(minutes=2))) == 120


def test_retry_with_max_attempts_is_dead_at_the_last_one_whatever_the_consumers_setting_says():
    generous, asked = RetryPolicy(max_retries=10**6), Retry(after=5, max_attempts=3)
    assert [generous.delay(event(n), asked) for n in (None, 1, 2, 3)] == [5, 5, None, None]
    assert RetryPolicy(max_retries=0).delay(event(1), asked) == 5
    assert generous.delay(event(None), Retry(after=5, max_attempts=1)) is None
    assert generous._replace(dead_events=False).delay(event(2), asked) == 5


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "3"])
def test_a_number_of_attempts_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="max_attempts is a number"):
        Retry(after=1, max_attempts=wrong)


@pytest.mark.parametrize("after", [-1, math.nan, math.inf, LONGEST * 2, timedelta(days=-1)])
def test_a_delay_that_makes_no_sense_is_refused(after):
    with pytest.raises(ValueError, match="a delay is"):
        Retry(after=after)


def test_a_retry_with_a_wrong_delay_or_number_of_attempts_is_a_failure():
    class Forgetful(Retry):
        def __init__(self):
            """Forget the delay."""

    late = Retry(after=1)
    late.after = -1
    wrong = Retry(after=1)
    wrong.max_attempts = "10"  # type: ignore[assignment]  # it is the mistake
    policy = RetryPolicy(max_retries=1, base=1)
    assert policy.delay(event(None), Forgetful(), most) == 1
    assert policy.delay(event(1), late) is None
    assert policy.delay(event(1), wrong) is None


def test_a_retry_comes_from_another_process_as_it_is():
    """A pool of processes would wait for ever for an exception that cannot be made anew."""
    copy = pickle.loads(pickle.dumps(Retry(timedelta(minutes=1), "closed", max_attempts=4)))
    assert (copy.after, copy.reason, copy.max_attempts) == (60, "closed", 4)
    assert str(copy) == "again in 60 s: closed"


def test_a_retry_says_what_it_asks_for():
    assert str(Retry(after=90, reason="closed")) == "again in 90 s: closed"
    assert str(Retry(after=0.5)) == "again in 0.5 s"
