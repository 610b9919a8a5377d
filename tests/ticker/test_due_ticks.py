"""Idle ticks, with more queues than one step includes."""

from __future__ import annotations

import pytest

from pgqpy.ticker import tick
from pgqpy.ticker.tick import NOTHING, DueTicks, LastTicks
from tests.ticker.harness import NAMES

LATER = 1e6  # seconds: every back-off is over


@pytest.fixture
def due(queues, client, monkeypatch):
    """A round of idle ticks over all queues, of which each is due."""
    monkeypatch.setattr(tick, "TOGETHER", 2)
    return DueTicks(period=1.0)


def round_of(due, statements):
    """Return the ticks of each step of a round, and the failures."""
    known = LastTicks(range(1, len(NAMES) + 1))
    steps, failures = [], []
    while True:
        done = due.step(statements, known, now=5.0)
        steps.append([queue for queue, _ in done.ticks])
        failures += [failure.queue for failure in done.failures]
        if not due.working:
            return steps, failures


def test_all_due_queues_are_ticked_a_few_in_each_step(due, statements):
    steps, failures = round_of(due, statements)
    assert sorted(queue for step in steps for queue in step) == NAMES
    assert max(map(len, steps)) == 2
    assert failures == []
    assert due.step(statements, LastTicks(), now=5.5) is NOTHING


def test_due_queues_of_a_step_are_ticked_in_one_transaction(due, statements, connection):
    # The transaction ids of the rows: other databases of the server take ids meanwhile.
    transactions = "select count(distinct xmin::text) from pgq.tick_recent"
    (before,) = connection.execute(transactions).fetchone()
    steps, _ = round_of(due, statements)
    ticking = [step for step in steps if step]
    assert connection.execute(transactions).fetchone() == (before + len(ticking),)


def test_due_queue_that_failed_and_was_dropped_fails_no_more(due, statements, client, connection):
    connection.execute("alter sequence pgq.event_4_tick_seq rename to away")
    assert round_of(due, statements)[1] == ["q04"]
    connection.execute("alter sequence pgq.away rename to event_4_tick_seq")
    client.drop_queue("q04")
    for _ in NAMES:
        due.step(statements, LastTicks(range(1, 15)), now=LATER)
    assert not due.failing


def test_due_queue_that_fails_harms_no_other(due, statements, connection):
    connection.execute("alter sequence pgq.event_4_tick_seq rename to away")
    steps, failures = round_of(due, statements)
    assert sorted(queue for step in steps for queue in step) == [n for n in NAMES if n != "q04"]
    assert failures == ["q04"]
    assert list(due.failing) == ["q04"]
    connection.execute("alter sequence pgq.away rename to event_4_tick_seq")
    while due.failing:
        done = due.step(statements, LastTicks(range(1, 15)), now=LATER)
    assert [queue for queue, _ in done.ticks] in (["q04"], [])
