"""Fetching ahead keeps order, passes errors on, holds few, and ends when nobody reads."""

from __future__ import annotations

import itertools
import threading

import pytest

from pgqpy.spark.prefetch import prefetched
from tests.support.waiting import eventually


def nothing() -> None:
    """Cancel what needs no cancelling."""


def test_items_come_in_order():
    assert list(prefetched(iter(range(100)), nothing, 3)) == list(range(100))


def test_an_error_comes_after_what_was_read():
    def items():
        yield 1
        raise LookupError("here")

    found = prefetched(items(), nothing)
    assert next(found) == 1
    with pytest.raises(LookupError, match="here"):
        next(found)


def test_few_are_held():
    made = []

    def items():
        for number in range(100):
            made.append(number)
            yield number

    found = prefetched(items(), nothing, 2)
    assert next(found) == 0
    eventually(lambda: len(made) >= 3)
    assert len(made) <= 4
    found.close()


def test_who_leaves_early_ends_the_thread():
    cancelled = threading.Event()
    found = prefetched(itertools.count(), cancelled.set, 2)
    next(found)
    before = threading.active_count()
    found.close()
    assert cancelled.is_set()
    assert threading.active_count() == before - 1


def test_who_reads_to_the_end_cancels_nothing():
    cancelled = threading.Event()
    list(prefetched(iter(range(3)), cancelled.set))
    assert not cancelled.is_set()


def test_the_thread_ends_also_if_it_cannot_be_cancelled():
    def cancel():
        raise ConnectionError("the server is gone")

    found = prefetched(itertools.count(), cancel, 2)
    next(found)
    before = threading.active_count()
    with pytest.raises(ConnectionError):
        found.close()
    assert threading.active_count() == before - 1
