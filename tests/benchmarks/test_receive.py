"""The cases of receivers and keys see what is lost, what comes twice, and what is out of order."""

from __future__ import annotations

import time

import psycopg
import pytest

from benchmarks.figures import Wrong
from benchmarks.load import backlog, keys
from benchmarks.load.backlog import Backlog
from benchmarks.load.handle import HOT, TURNS, Handled
from benchmarks.load.keys import Round, verify_order
from benchmarks.load.receive import Order, receive
from benchmarks.readers.claims import BOTH, RECEIVERS, SKIP_LOCKED

MS = 1_000_000  # nanoseconds


@pytest.mark.parametrize("contestant", RECEIVERS)
def test_each_event_of_a_backlog_is_counted_once(dsn, contestant):
    events = Backlog(contestant, dsn)
    for fill in (events.fill, events.fill_at_once):
        events.make()
        fill(30)
        events.first(2)
        start = time.monotonic_ns()
        received = receive(Order(contestant, dsn, 3, start, start + 300 * MS))
        assert received.counted == received.events
        events.remove(received.events, received.ids)
        events.drain()


def test_turns_before_the_start_do_not_count(dsn):
    events = Backlog(SKIP_LOCKED, dsn)
    events.make()
    events.fill(5)
    now = time.monotonic_ns()
    received = receive(Order(SKIP_LOCKED, dsn, 5, now + 60_000 * MS, now + 300 * MS))
    assert received.counted == 0
    events.remove(received.events, received.ids)
    events.drain()


@pytest.mark.parametrize(
    "change", ["delete from job where id = 2", "insert into job (data) values ('x')"]
)
def test_an_event_that_is_lost_or_comes_twice_is_wrong(dsn, monkeypatch, change):
    monkeypatch.setattr(backlog, "PATIENCE", 0)
    events = Backlog(SKIP_LOCKED, dsn)
    events.make()
    events.fill(5)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(change.encode())
    with pytest.raises(Wrong, match="events that are missing"):
        events.drain()


def test_a_claim_that_is_not_ended_is_wrong(dsn, monkeypatch):
    monkeypatch.setattr(backlog, "PATIENCE", 0)
    events = Backlog(BOTH, dsn)
    events.make()
    events.fill(5)
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert len(RECEIVERS[BOTH](connection, 2).turn()) == 2
    with pytest.raises(Wrong, match="events that are missing: 2"):
        events.drain()


@pytest.mark.parametrize("contestant", TURNS)
def test_workers_handle_each_event_in_its_keys_order(dsn, contestant):
    keys.make(contestant, dsn, hot=20)
    load = Round(contestant, dsn, 2, keys=2, workers=2, seconds=0.3, warm_up=0.0)
    latency = keys.measure(load)
    assert latency.p99 >= latency.p50 > 1


def handled(key, *numbers, gap=2):
    return [
        Handled(key, number, 0, index * gap * MS, (index + 1) * gap * MS)
        for index, number in enumerate(numbers)
    ]


def test_order_is_that_of_a_key():
    verify_order(handled("a", 1, 4) + handled("b", 2, 3) + handled(HOT, 0, 1))
    with pytest.raises(Wrong, match="the order of a"):
        verify_order(handled("a", 4, 1))
    with pytest.raises(Wrong, match="the order of hot"):
        verify_order(handled(HOT, 0, 2))
    with pytest.raises(Wrong, match="handled at one time: 1"):
        verify_order(handled("a", 1, 2, gap=0.5))
