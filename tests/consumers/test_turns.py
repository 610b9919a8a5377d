"""The turns of several queues: which one is next, and when a later one may go before."""

from __future__ import annotations

import select

import pytest

from pgqpy.consumers.turns import Turns

INTERVAL = 10.0  # seconds


class Table:
    """Turns with a clock that stands still."""

    def __init__(self, number=3, *, begun=True):
        self.now = 0.0
        self.given: list[int] = []
        self.turns = Turns(number, INTERVAL, self.given.append, lambda: self.now)
        if begun:
            for queue in range(number):
                self.turns.leave(queue)

    def ask(self, *queues):
        for queue in queues:
            self.turns.ask(queue)

    def next(self, *queues):
        """Let the queues look in any order; return the one that takes the turn."""
        taken = [queue for queue in queues if self.turns.take(queue)]
        assert len(taken) <= 1
        return taken[0] if taken else None

    def work(self, queue, seconds):
        """Have the turn for a while, then ask for the next one."""
        assert self.turns.take(queue)
        self.now += seconds
        self.turns.leave(queue)
        self.turns.ask(queue)


@pytest.fixture
def table():
    table = Table()
    yield table
    table.turns.close()


def test_the_earliest_queue_that_waits_has_the_next_turn(table):
    table.ask(2, 1)
    assert table.next(2, 1) == 1
    table.ask(0)
    assert table.turns.contended(1)
    assert table.next(2, 0) is None
    table.turns.leave(1)
    assert table.next(2, 0) == 0
    assert not table.turns.contended(0)
    table.turns.leave(0)
    assert table.next(2) == 2
    assert table.given == [1, 0, 2]


def test_a_later_queue_has_a_turn_after_the_interval(table):
    table.ask(0, 1)
    for _ in range(3):
        table.work(0, 3.0)
    assert table.next(1) is None
    assert table.next(0) == 0
    table.now += 1.0
    assert table.turns.contended(0)
    table.turns.leave(0)
    table.ask(0)
    assert table.next(0, 1) == 1
    assert table.turns.contended(1)  # for one part only
    table.turns.leave(1)
    table.ask(1)
    assert table.next(1, 0) == 0


def test_only_work_of_earlier_queues_makes_a_later_one_late(table):
    # With 15 s a part, two later queues would leave no time to the first one.
    table.ask(0, 1, 2)
    seconds = [0.0, 0.0, 0.0]
    for _ in range(400):
        queue = table.next(0, 1, 2)
        spent = 0.5 if queue == 0 else 15.0
        table.now += spent
        seconds[queue] += spent
        table.turns.leave(queue)
        table.ask(queue)
    assert seconds[0] >= INTERVAL / 15.0 * seconds[1] - INTERVAL
    assert seconds[2] >= 15.0


def test_at_the_start_later_queues_wait_for_the_first_look_of_earlier_ones():
    table = Table(begun=False)
    assert not table.turns.begun(1)
    table.ask(2, 1)
    assert table.next(2, 1) is None
    table.ask(0)
    assert table.turns.begun(1)
    assert table.next(2, 1, 0) == 0
    table.turns.leave(0)
    assert table.next(2, 1) == 1
    table.turns.close()


def test_a_queue_that_cannot_start_delays_no_other():
    table = Table(begun=False)
    table.ask(1)
    table.turns.leave(0)
    assert table.next(1) == 1
    table.turns.close()


def test_a_queue_with_an_open_batch_hides_before_handlers_of_another_run(table):
    turns = table.turns
    table.ask(1)
    assert table.next(1) == 1
    turns.leave(1, exposed=True)
    table.ask(1, 0)
    assert table.next(1, 0) == 0
    assert not turns.is_to_hide(1)
    assert not turns.alone(0)
    assert turns.is_to_hide(1)
    assert select.select([turns.fileno(1)], [], [], 0)[0]
    turns.hidden(1)
    assert turns.alone(0)
    turns.leave(0)
    assert table.next(1) == 1
    assert turns.alone(1)
